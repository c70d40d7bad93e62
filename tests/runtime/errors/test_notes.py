"""Under `outplace run` a diagnosis is rendered once: below the traceback, or as a note where somebody looks at it."""

import sys

import pytest

import forks

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no notes")

START = """
import torch
from outplace.runtime.errors import dispatch
render = dispatch.as_text
def counted(diagnoses):
    print("rendered a note", flush=True)
    return render(diagnoses)
dispatch.as_text = counted
def fail():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y += 1
    y.sum().backward()
"""

HEADLINE = "y (float32[2]) was overwritten after exp kept it for backward"


def run(tmp_path, end):
    (tmp_path / "prog.py").write_text(START + end)
    return forks.python(tmp_path, "-m", "outplace", "run", "prog.py")


def test_an_uncaught_error_gets_no_note(tmp_path):
    done = run(tmp_path, "fail()\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count(HEADLINE) == 1


@pytest.mark.parametrize(
    "end",
    [
        "try:\n    fail()\nexcept RuntimeError as error:\n    [note] = error.__notes__\n    print(note)\n",
        "import traceback, contextlib\nclass Logs(contextlib.ContextDecorator):\n    __enter__ = print\n"
        "    def __exit__(self, *error):\n        traceback.print_exception(*error)\n        return True\n"
        "with Logs():\n    fail()\n",
        "import threading\nthread = threading.Thread(target=fail)\nthread.start()\nthread.join()\n",
    ],
    ids=["caught", "formatted", "thread"],
)
def test_an_error_that_somebody_looks_at_has_one_note(tmp_path, end):
    done = run(tmp_path, end)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rendered a note") == 1
    assert HEADLINE in done.stdout + done.stderr.partition("outplace: the program went on")[0]


def test_a_caught_error_that_is_raised_again_is_shown_once(tmp_path):
    done = run(tmp_path, "try:\n    fail()\nexcept RuntimeError:\n    raise\n")
    assert done.returncode == 1
    assert done.stderr.count(HEADLINE) == 1
