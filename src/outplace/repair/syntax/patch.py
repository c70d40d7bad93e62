"""A change as a unified diff."""

from __future__ import annotations

import difflib
import os


def unified(name: str, old: str, new: str, context: int = 3) -> str:
    """The diff between two texts; empty if they are equal."""
    lines = difflib.unified_diff(_lines(old), _lines(new), *both_names(name), n=context)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def both_names(name: str) -> tuple[str, str]:
    """The names of the old and the new file in the header: `a/train.py` and `b/train.py`, or a whole path twice."""
    plain = name.replace(os.sep, "/")
    return (name, name) if os.path.isabs(name) else (f"a/{plain}", f"b/{plain}")


def _lines(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [text.rsplit("\n", 1)[-1]] if not text.endswith("\n") and text else []
    )
