"""GitHub annotations read back the way the runner reads them, whatever stands in names and messages."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from outplace.checking.outcome import Result
from outplace.model import Finding, Site
from outplace.report.findings import render

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).filter(
    lambda name: name not in (".", "..")
)


def read(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command by its grammar: `::level name=value,name=value::message`."""
    match = re.fullmatch(r"::(\w+) (.*?)::(.*)", line, re.DOTALL)
    assert match, line
    properties = dict(part.split("=", 1) for part in match[2].split(","))
    return match[1], {name: plain(value) for name, value in properties.items()}, plain(match[3])


def plain(text: str) -> str:
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, sign)
    return text


@given(name=NAME, message=TEXT, line=st.integers(1, 10**6))
def test_an_annotation_is_one_line_that_says_it_all(name: str, message: str, line: int) -> None:
    site = Site(f"/elsewhere/{name}", line, line, 4, 9, "f", "y += 1")
    finding = Finding("saved", "OUT201", "error", site, message)
    shown = render(Result([finding], []), "github")
    assert shown.count("\n") == 1
    assert shown.endswith("\n")
    assert "\r" not in shown
    level, properties, text = read(shown[:-1])
    assert level == "error"
    assert properties["file"] == f"/elsewhere/{name}"
    assert (properties["line"], properties["col"], properties["endColumn"]) == (str(line), "5", "10")
    assert properties["title"] == "outplace (OUT201)"
    assert "OUT201" in text
    assert " ".join(message.split()) in " ".join(text.split())
