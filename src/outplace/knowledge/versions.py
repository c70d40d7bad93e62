"""The version of torch that is installed, and those that outplace was tried with (`make matrix`)."""

from __future__ import annotations

import re
import sys

OLDEST, NEWEST = (2, 6), (2, 15)


def remark(torch: str) -> str | None:
    """What a user of another version should know."""
    version = numbers(torch)
    if version is None:
        return None
    if version < OLDEST:
        return f"torch {torch} is older than {_dotted(OLDEST)}: diagnoses may be missing or wrong"
    if version > NEWEST:
        return f"torch {torch} is newer than {_dotted(NEWEST)}, the last one that this outplace knows: update outplace"
    return None


def installed() -> str | None:
    """The version of the torch that is loaded, or that could be; torch is not imported."""
    if "torch" in sys.modules:
        return getattr(sys.modules["torch"], "__version__", None)
    from importlib.util import find_spec  # only now: few ask

    spec = find_spec("torch")
    for folder in spec.submodule_search_locations or () if spec else ():
        try:
            with open(f"{folder}/version.py", encoding="utf-8") as file:
                said = re.search(r"^__version__ *= *['\"](.+?)['\"]", file.read(), re.M)
        except OSError:
            continue
        if said:
            return said[1]
    return None


def numbers(torch: str) -> tuple[int, int] | None:
    """The first two numbers of a version: torch changes what operations do only with these."""
    said = re.match(r"(\d+)\.(\d+)", torch)
    return (int(said[1]), int(said[2])) if said else None


def environment() -> str:
    """`Python 3.11.7, torch 2.13.0`; torch is not imported."""
    python = "Python " + ".".join(map(str, sys.version_info[:3]))
    torch = installed()
    return f"{python}, torch {torch}" if torch else f"{python}, no torch"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
