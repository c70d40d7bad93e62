"""How much of a source can be parsed in little time and memory. A syntax tree takes up to 300 times its text."""

from __future__ import annotations

import re

MOST_TOKENS = 300_000
"""The syntax tree of this many tokens takes about 170 MB. The largest files written by hand have fewer."""
MOST_TOKENS_TO_REPAIR = 100_000
"""A repair holds about five trees at a time. The largest file of torch that a person wrote has 58,000."""
_MOST_LOOKS = 10_000_000_000
"""Python before 3.12 looks through a whole f-string for each of its parts: this many characters take about 2 s."""

_TOKEN = re.compile(
    r"""
    (?P<start>\n(?=[^\s\#)\]}])(?!(?:elif|else|except|finally)\b))
    | \#[^\n]* | \\\n
    | (?P<text>(?P<prefix>\b[A-Za-z]{1,2})?(?:
        ["]{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*["]{3} | '{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
        | "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\\\n]*(?:\\.[^'\\\n]*)*' ))
    | (?P<broken>["'])
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | (?P<lines>\n+(?=\n)|\n) | \w+ | [^\w\s]
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"\w+|[^\w\s]")


def can_be_repaired(source: str) -> bool:
    """Is it small enough for the trees that a repair holds?"""
    return first_part(source, MOST_TOKENS_TO_REPAIR) is source


def first_part(source: str, most_tokens: int | None = None) -> str:
    """The first statements of a source, as many as can be parsed: for nearly all files the source itself."""
    most_tokens = MOST_TOKENS if most_tokens is None else most_tokens
    if len(source) <= most_tokens and source.count("{") * len(source) <= _MOST_LOOKS:
        return source
    tokens = looks = depth = end = 0
    decorated = False
    for found in _TOKEN.finditer(source):
        kind = found.lastgroup
        tokens += 1
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif kind == "start" and depth <= 0:
            end = end if decorated else found.end()
            decorated = source.startswith("@", found.end())
        elif kind == "broken":
            return source  # no Python: the parser ends here, too
        elif kind in ("text", "lines"):
            tokens += found[0].count("\n") - (kind == "lines")  # a list of lines takes memory, too
            if "f" in (found["prefix"] or "").lower():
                tokens += len(_WORD.findall(found[0]))
                looks += found[0].count("{") * len(found[0])
        if tokens > most_tokens or looks > _MOST_LOOKS:
            return source[:end]
    return source
