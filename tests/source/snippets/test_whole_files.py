"""Whole files: what is said of them, which others they lead to, and how much of them is followed."""

import pytest

from outplace.source.analysis import check_file
from outplace.source.project import Project

from .snippet import PRELUDE


def test_both_places_are_named() -> None:
    source = PRELUDE + "w = torch.ones(3, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\n"
    (finding,) = check_file("snippet.py", source, Project()).findings
    assert finding.saved_by is not None
    assert (finding.saved_by.text, finding.site.text) == ("w.exp()", "y += 1")
    assert "exp keeps its result" in finding.message


def test_a_program_is_followed_into_other_files(tmp_path) -> None:
    (tmp_path / "helpers.py").write_text("def squash(t):\n    t.mul_(0.5)\n    return t\n")
    main = tmp_path / "main.py"
    main.write_text(
        "import torch\nfrom helpers import squash\nw = torch.ones(3, requires_grad=True)\n"
        "y = w.exp()\nz = squash(y)\nz.sum().backward()\n"
    )
    checked = check_file(str(main), main.read_text(), Project())
    assert [(f.site.file.rpartition("/")[2], f.site.line, f.severity) for f in checked.findings] == [
        ("helpers.py", 2, "error")
    ]
    assert checked.dependencies == (str(tmp_path / "helpers.py"),)


def test_a_syntax_error_is_said() -> None:
    checked = check_file("broken.py", "import torch\nx += (\n", Project())
    assert checked.error is not None
    assert checked.error.message.startswith("SyntaxError")


@pytest.mark.parametrize("head", ["with around():", "for _ in around():"])
def test_a_block_that_is_too_long_ends_quietly(head: str) -> None:
    source = PRELUDE + "from contextlib import contextmanager\n"
    source += f"{'@contextmanager' if head.startswith('with') else ''}\ndef around():\n    yield 1\n"
    source += f"def f(x):\n    {head}\n     {head}\n      x.add_(1)\n" + "      y = x\n" * 2000 + "    return x\n"
    assert check_file("long.py", source, Project()).error is None


def test_a_list_that_doubles_in_a_loop_stays_small() -> None:
    source = PRELUDE + "def f(x):\n    x.add_(1)\n    a = [x, x]\n" + "    a += a\n" * 60 + "    return a\n"
    assert check_file("doubling.py", source, Project()).error is None
