from __future__ import annotations

import pytest
from click.testing import CliRunner
from rich.text import Text

from outplace.cli.explain import explain
from outplace.knowledge import kinds

VERSION = (
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [4, 8]], which is output 0 of ExpBackward0, is at version 3; expected version 0 instead. "
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient."
)
LEAF = "a leaf Variable that requires grad is being used in an in-place operation."


@pytest.fixture
def page(monkeypatch):
    text = "# OUT201: saved\n\nSome *text*.\n\n## Example\n\n```python\nh += 1\n```\n"
    monkeypatch.setattr(kinds, "page", lambda kind: text.replace("OUT201", kind.code))
    return text


def run(*args, stdin=None, **env):
    return CliRunner().invoke(explain, args, input=stdin, env=env)


@pytest.mark.parametrize("word", ["OUT201", "out201", "saved", "Saved"])
def test_a_pipe_gets_the_page_as_markdown(word, page):
    result = run(word)
    assert (result.exit_code, result.output) == (0, page)


def test_a_terminal_gets_the_page_rendered(page):
    result = run("leaf", FORCE_COLOR="1", TERM="xterm", COLUMNS="60")
    assert result.exit_code == 0
    assert result.output.startswith("\x1b[1;31mOUT101: saved\x1b[0m")
    assert "\n    h += 1" in Text.from_ansi(result.output).plain
    assert "```" not in result.output and "*text*" not in result.output


def test_a_version_message_is_taken_apart():
    result = run(VERSION)
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert lines[0] == "OUT201 saved: a tensor that backward needs is modified after it was saved"
    assert "  tensor   torch.FloatTensor [4, 8], output 0 of exp" in lines
    assert "  version  v0 when it was saved, v3 now: 3 writes in between" in lines
    assert "  raised   in backward, later than the line that causes it" in lines
    assert any(line.startswith("  fix      ") for line in lines)
    assert any(line.startswith("  or       ") for line in lines)
    assert lines[-2] == "outplace run SCRIPT (in a notebook: %load_ext outplace) names the lines."
    assert lines[-1] == "More: outplace explain OUT201"


def test_one_write_is_not_several():
    assert "v1 now: 1 write in between\n" in run(VERSION.replace("version 3", "version 1")).output


def test_words_need_no_quotes():
    assert run(*LEAF.split()).output == run(LEAF).output


@pytest.mark.parametrize("args", [(), ("-",)])
def test_a_traceback_can_be_piped_in(args):
    log = f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nRuntimeError: {LEAF}\n'
    result = run(*args, stdin=log)
    assert result.exit_code == 0
    assert result.output.startswith("OUT101 leaf: a leaf that requires grad is modified in place\n")
    assert "  tensor" not in result.output


def test_a_log_need_not_be_utf8():
    result = run(stdin=b"\xff\xfe " + LEAF.encode())
    assert result.exit_code == 0
    assert result.output.startswith("OUT101 ")


def test_a_code_can_be_piped_in(page):
    assert run(stdin="OUT201\n").output == page


def test_an_uncertain_message_says_so():
    result = run("The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0")
    assert result.output.startswith("OUT109 ")
    assert "also comes from programs without any in-place operation" in result.output.replace("\n           ", " ")
    assert "also comes from" not in run(VERSION).output


def test_lines_keep_to_the_width():
    lines = run(VERSION, COLUMNS="40").output.splitlines()
    assert max(map(len, lines)) <= 40


def test_another_error_is_not_explained():
    result = run("division by zero")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == ("outplace: outplace does not know this error; see outplace rules for those it knows\n")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("OUT20", "it stands for OUT201, OUT202, "),
        ("savd", "did you mean saved?"),
        ("Leaf-veiw", "did you mean leaf-view or leaf?"),
        ("zzz", "see outplace rules for all of them"),
    ],
)
def test_an_unknown_rule_gets_a_hint(word, hint):
    result = run(word)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"outplace: no rule is called {word!r}; {hint}")


@pytest.mark.parametrize("args", [("",), ("  ",), ()])
def test_nothing_to_explain(args):
    result = run(*args, stdin="")
    assert result.exit_code == 2
    assert result.stderr.startswith("outplace: nothing to explain")
