"""Who else uses a file: the modules of the project that import it, whose calls decide what a rewrite may change."""

from __future__ import annotations

import os
import re

from outplace.checking import discovery
from outplace.checking.settings import Settings
from outplace.repair.files import Unwritable, read

_MOST = 5_000


def importers(path: str, settings: Settings) -> dict[str, str]:
    """The texts of the project's files that import this one."""
    name = os.path.basename(os.path.dirname(path) if path.endswith("__init__.py") else path).removesuffix(".py")
    pattern = re.compile(rf"^\s*(?:from|import)\b[^\n]*\b{re.escape(name)}\b", re.MULTILINE)
    root = settings.root if os.path.commonpath([settings.root, path]) == settings.root else os.path.dirname(path)
    found: dict[str, str] = {}
    for other in discovery.discover([root], settings.excluded).files[:_MOST]:
        if other == path or not other.endswith(".py"):
            continue
        try:
            with open(other, "rb") as stream:
                if name.encode() not in stream.read():
                    continue
            text = read(other).text
        except (OSError, Unwritable):
            continue
        if pattern.search(text):
            found[other] = text
    return found
