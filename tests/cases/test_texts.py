"""Code that is in no file: its lines are named and shown where the source can be had, and else the report says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import Zygote

TEXT = "w = torch.ones(3, requires_grad=True)\ny = w.exp()\ny.mul_(2)\ny.sum().backward()\n"

COMPILED = f"import torch\nexec(compile({TEXT!r}, '<made>', 'exec'), {{'torch': torch}})\n"
EXECUTED = f"import torch\ndef run():\n    torch, text = globals()['torch'], {TEXT!r}\n    exec(text)\nrun()\n"
IN_A_FUNCTION = """import torch
names = {}
exec(compile("def f(w):\\n    y = w.exp()\\n    y.mul_(2)\\n    return y.sum()\\n", "<methods of f>", "exec"), names)
names["f"](torch.ones(3, requires_grad=True)).backward()
"""
EXAMPLES = '''"""The module.

>>> import torch
>>> y = torch.ones(3, requires_grad=True).exp()
>>> y.mul_(2).sum().backward()
"""
import doctest
doctest.testmod()
'''
REUSED = """import torch
names = {"torch": torch}
exec("y = torch.ones(3, requires_grad=True).exp()", names)
exec("y.mul_(2)", names)
names["y"].sum().backward()
"""
LIBRARY = """import linecache

def make(text, file, keep):
    names = {}
    exec(compile(text, file, "exec"), names)
    if keep:
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return names["f"]
"""
BY_A_LIBRARY = """import sys, torch
sys.path.insert(0, "site-packages")
import library
f = library.make("def f(y):\\n    y.mul_(2)\\n", "<kept>", True)
g = library.make("def f(y):\\n    y.add_(2)\\n", "<not kept>", False)
y = torch.ones(3, requires_grad=True).exp()
f(y)
g(y)
y.sum().backward()
"""


def run(zygote: Zygote, tmp_path, program: str):
    (tmp_path / "main.py").write_text(program)
    done = zygote.run(tmp_path, "main.py")
    (found,) = done.report["diagnoses"]
    return found, done.output


@pytest.mark.parametrize(
    ("program", "saved", "written"),
    [
        (COMPILED, ("<made>", 2, "w.exp()"), ("<made>", 3, "y.mul_(2)")),
        (EXECUTED, ("<string>", 2, "w.exp()"), ("<string>", 3, "y.mul_(2)")),
        (IN_A_FUNCTION, ("<methods of f>", 2, "w.exp()"), ("<methods of f>", 3, "y.mul_(2)")),
        (
            EXAMPLES,
            ("<doctest __main__[1]>", 1, "torch.ones(3, requires_grad=True).exp()"),
            ("<doctest __main__[2]>", 1, "y.mul_(2)"),
        ),
    ],
    ids=["compile", "exec", "a function", "doctest"],
)
def test_the_lines_of_a_text(program, saved, written, zygote, tmp_path):
    found, output = run(zygote, tmp_path, program)
    sites = found["saved_by"]["site"], found["mutations"][0]["site"]
    assert [(site["file"], site["line"], site["text"]) for site in sites] == [saved, written]
    assert f"{saved[0]}:{saved[1]}" in output and "overwritten here: mul_" in output


def test_a_name_that_stands_for_two_texts(zygote, tmp_path):
    """The line numbers are right, and no line of another text is shown."""
    found, output = run(zygote, tmp_path, REUSED)
    saved = found["saved_by"]["site"]
    assert (saved["file"], saved["line"], saved["text"]) == ("<string>", 1, "")
    assert "(source not available)" in output
    assert found["mutations"][0]["site"]["text"].startswith("exec(")


def test_code_that_a_library_has_made(zygote, tmp_path):
    """The user's call is named; the line inside is a detail, shown if linecache has it."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "library.py").write_text(LIBRARY)
    found, output = run(zygote, tmp_path, BY_A_LIBRARY)
    assert [mutation["site"]["text"] for mutation in found["mutations"]] == ["f(y)", "g(y)"]
    assert "through <kept>:2 f: y.mul_(2)" in output
    assert "through <not kept>:2 f (its source is not known)" in output


@pytest.mark.parametrize(
    "program",
    [
        "x = 1\nfor i in range(3):\n    exec(f'x += {i}')\nprint(x)",
        "def f():\n    y = 1\n    exec('y = 2')\n    return y\nprint(f())",
        "from __future__ import annotations\nexec('def f(x: y): pass')\nprint(f.__annotations__)",
        "exec('import sys; print(sys._getframe().f_code.co_filename)')",
        "def exec(text): print(text)\nexec('x = 1')",
        "exec(compile('print(1)\\n', '<a>', 'single'))\nexec(b'print(2)')\nprint(eval('3'))",
        "try:\n    exec('x = = 1')\nexcept SyntaxError as error:\n    print(error, error.filename, error.lineno)",
        "import traceback\ntry:\n    exec('1 / 0')\nexcept ZeroDivisionError:\n    traceback.print_exc()",
    ],
)
def test_what_runs_is_the_same(program, zygote, tmp_path):
    """Python itself says what the program prints."""
    (tmp_path / "main.py").write_text(program)
    plain = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    done = zygote.run(tmp_path, "main.py")
    assert done.status == 0
    assert sorted(done.output.splitlines()) == sorted((plain.stdout + plain.stderr).splitlines())
