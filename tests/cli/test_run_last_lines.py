"""What `outplace run` says at its end: how to repair, what it wrote, and options that the program got."""

from __future__ import annotations

import pytest

from side_by_side import outplace, outplace_forked, write

BUG = """
import torch

x = torch.ones(3, requires_grad=True)
h = x.exp()
h += 1
h.sum().backward()
"""
TAKES_EPOCHS = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--epochs")\np.parse_args()\n'


def last_line(ending):
    return ending.stderr.splitlines()[-1]


def test_a_failed_run_that_can_be_repaired_says_how(tmp_path):
    write(tmp_path, "my train.py", BUG)
    ending = outplace_forked(tmp_path, "run", "my train.py", "--lr", "1")
    assert last_line(ending) == "Repair it and prove the repair: outplace run --fix 'my train.py' --lr 1"


@pytest.mark.parametrize(
    "source",
    [
        "1 / 0",
        "import torch\nx = torch.ones(3, requires_grad=True)\ny = x.exp().sum()\ny.backward()\ny.backward()",  # freed
        BUG.replace("h += 1\n", ""),
        f"import sys\ntry:\n    exec({BUG!r})\nexcept RuntimeError:\n    pass",  # the program survived it
    ],
)
def test_other_runs_do_not(tmp_path, source):
    write(tmp_path, "train.py", source)
    assert "run --fix" not in outplace_forked(tmp_path, "run", "train.py").stderr


def test_code_that_is_in_no_file_cannot_be_repaired(tmp_path):
    ending = outplace_forked(tmp_path, "run", "-c", BUG)
    assert last_line(ending) == "More: outplace explain OUT201"


def test_reports_are_named(tmp_path):
    write(tmp_path, "train.py", "print(1)")
    ending = outplace(tmp_path, "run", "--json", "o.json", "--html", "a page.html", "train.py")
    page = (tmp_path / "a page.html").as_uri()
    assert ending.stderr.splitlines() == [
        "outplace: wrote o.json",
        f"outplace: wrote a page.html; open it in a browser: {page}",
    ]
    assert "%20" in page


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--fix"], "outplace run --fix train.py"),
        (["--epochs", "3", "--json", "o.json"], "outplace run --json o.json train.py --epochs 3"),
        (["--html=o.html", "--strict"], "outplace run --html=o.html --strict train.py"),
    ],
)
def test_an_option_of_ours_after_a_program_that_does_not_know_it(tmp_path, words, line):
    write(tmp_path, "train.py", TAKES_EPOCHS)
    ending = outplace(tmp_path, "run", "train.py", *words)
    assert ending.code == 2  # from argparse
    assert last_line(ending).endswith(f"comes after the program, so the program got it. To give it to outplace: {line}")


def test_a_program_that_ignores_its_arguments(tmp_path):
    write(tmp_path, "train.py", "print(1)")
    ending = outplace(tmp_path, "run", "train.py", "--fix")
    assert (ending.code, ending.stdout) == (0, b"1\n")
    assert last_line(ending).endswith("To give it to outplace: outplace run --fix train.py")


def test_the_way_to_repair_is_said_once(tmp_path):
    write(tmp_path, "train.py", BUG)
    ending = outplace_forked(tmp_path, "run", "train.py", "--fix")
    assert [line for line in ending.stderr.splitlines() if "run --fix" in line] == [last_line(ending)]
    assert last_line(ending).endswith("To give it to outplace: outplace run --fix train.py")


def test_a_program_that_knows_the_option(tmp_path):
    write(tmp_path, "train.py", "import options")
    write(tmp_path, "options.py", TAKES_EPOCHS.replace('"--epochs"', '"--fix", "--unsafe_fixes", action="store_true"'))
    assert outplace(tmp_path, "run", "train.py", "--fix").stderr == ""


def test_an_option_after_two_dashes_is_the_programs(tmp_path):
    write(tmp_path, "train.py", "print(1)")
    assert outplace(tmp_path, "run", "--", "train.py", "--fix").stderr == ""


def test_without_torch(tmp_path):
    """As in an environment of pipx, which has outplace and nothing else."""
    write(tmp_path, "torch.py", "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    write(tmp_path, "train.py", "import torch")
    ending = outplace(tmp_path, "run", "train.py")
    assert ending.code == 1
    said = ending.stderr.partition("outplace: ")[2]
    assert said.startswith("torch is not installed for ")
    assert "Install outplace into the\nenvironment that has torch:" in said
    assert [line.split()[0] for line in said.splitlines()[2:]] == ["pip", "uv", "pipx"]


def test_another_module_that_is_missing(tmp_path):
    write(tmp_path, "train.py", "import no_such_module")
    assert "outplace: " not in outplace(tmp_path, "run", "train.py").stderr


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.5.1+cu121", "is older than 2.6: diagnoses may be missing or wrong"),
        ("1.13", "is older than 2.6: diagnoses may be missing or wrong"),
        ("2.6.0", ""),
        ("2.15.1", ""),
        ("2.16.0a0", "is newer than 2.15, the last one that this outplace knows: update outplace"),
        ("3.0", "is newer than 2.15, the last one that this outplace knows: update outplace"),
    ],
)
def test_a_torch_that_outplace_does_not_know(tmp_path, version, said):
    write(
        tmp_path,
        "train.py",
        f"import sys, types\nsys.modules['torch'] = m = types.ModuleType('torch')\nm.__version__ = {version!r}",
    )
    lines = [line for line in outplace(tmp_path, "run", "train.py").stderr.splitlines() if "outplace: torch" in line]
    assert lines == ([f"outplace: torch {version} {said}"] if said else [])
