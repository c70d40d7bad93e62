from __future__ import annotations

import json

from click.testing import CliRunner

from outplace.cli.rules import rules
from outplace.knowledge.kinds import KINDS


def run(*args, **env):
    result = CliRunner().invoke(rules, args, env=env)
    assert result.exit_code == 0
    return result.output


def test_a_pipe_gets_one_line_a_rule():
    lines = run().splitlines()
    assert len(lines) == len(KINDS)
    first = f"OUT101  {'leaf':<{max(len(kind.name) for kind in KINDS)}}  at the operation  "
    assert lines[0] == f"{first}a leaf that requires grad is modified in place"
    for kind, line in zip(KINDS, lines, strict=True):
        assert line.split()[:2] == [kind.code, kind.name]
        assert line.endswith(kind.summary)


def test_when_each_family_is_raised():
    lines = {line.split()[0]: line for line in run().splitlines()}
    assert " at the operation " in lines["OUT114"]
    assert " at backward " in lines["OUT206"]
    assert " nowhere " in lines["OUT303"]


def test_a_terminal_gets_wrapped_summaries():
    lines = run(FORCE_COLOR="1", NO_COLOR="1", COLUMNS="100").splitlines()
    assert len(lines) > len(KINDS)
    assert max(map(_visible, lines)) <= 100


def test_a_narrow_terminal_gets_a_list():
    lines = run(FORCE_COLOR="1", NO_COLOR="1", COLUMNS="40").splitlines()
    assert max(map(_visible, lines)) <= 40
    assert lines[1] == "  a leaf that requires grad is modified"


def test_json():
    listed = json.loads(run("--json"))
    assert [entry["code"] for entry in listed] == [kind.code for kind in KINDS]
    assert listed[0] == {
        "code": "OUT101",
        "name": "leaf",
        "raised": "operation",
        "summary": "a leaf that requires grad is modified in place",
    }
    assert {entry["raised"] for entry in listed} == {"operation", "backward", "never"}
    assert {entry["family"] for entry in listed if "family" in entry} == {"silent-data", "silent-alias", "silent-other"}


def _visible(line):
    from rich.text import Text

    return Text.from_ansi(line).cell_len
