"""The versions of torch that outplace was tried with (`make matrix`)."""

from __future__ import annotations

import re
import sys
from importlib import metadata

OLDEST, NEWEST = (2, 6), (2, 15)


def remark(torch: str) -> str | None:
    """What a user of another version should know."""
    numbers = re.match(r"(\d+)\.(\d+)", torch)
    if numbers is None:
        return None
    version = int(numbers[1]), int(numbers[2])
    if version < OLDEST:
        return f"torch {torch} is older than {_dotted(OLDEST)}: diagnoses may be missing or wrong"
    if version > NEWEST:
        return f"torch {torch} is newer than {_dotted(NEWEST)}, the last one that this outplace knows: update outplace"
    return None


def environment() -> str:
    """`Python 3.11.7, torch 2.13.0`; torch is not imported."""
    python = "Python " + ".".join(map(str, sys.version_info[:3]))
    try:
        return f"{python}, torch {metadata.version('torch')}"
    except metadata.PackageNotFoundError:
        return f"{python}, no torch"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
