"""The files around a file: those that import it. Their calls decide what a rewrite may change."""

from __future__ import annotations

import contextlib
import os
import re

from outplace.checking import discovery
from outplace.checking.outcome import Outcome
from outplace.checking.settings import Settings
from outplace.files import naming
from outplace.repair.syntax.files import Unwritable, read

_MOST = 5_000


def surroundings(path: str, outcome: Outcome, settings: Settings) -> dict[str, str]:
    """The texts of the files that a repair of these findings must consider.

    These are the files that it imports, and those that import it or another file that a finding leads to.
    """
    texts: dict[str, str] = {}
    for other in outcome.dependencies:
        with contextlib.suppress(Unwritable):
            texts[other] = read(other).text
    sites = [site for finding in outcome.findings for site in (finding.site, finding.saved_by) if site is not None]
    for file in dict.fromkeys([path, *(site.file for site in sites)]):
        texts.update(importers(file, settings))
    texts.pop(path, None)
    return texts


def importers(path: str, settings: Settings) -> dict[str, str]:
    """The texts of the project's files that import this one."""
    name = os.path.basename(os.path.dirname(path) if path.endswith("__init__.py") else path).removesuffix(".py")
    pattern = re.compile(rf"^\s*(?:from|import)\b[^\n]*\b{re.escape(name)}\b", re.MULTILINE)
    root = settings.root if naming.is_inside(path, settings.root) else os.path.dirname(path)
    texts: dict[str, str] = {}
    if not os.path.isdir(root):
        return texts  # the editor has a document in a folder that is not on disk
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
            texts[other] = text
    return texts
