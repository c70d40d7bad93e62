"""The marked places."""

from __future__ import annotations

from typing import NamedTuple


class Statement(NamedTuple):
    """A marked place: a statement, or an operation inside one that spans several lines."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str


STATEMENTS: list[Statement] = []
"""A mark is called with the index of its statement in this list."""
