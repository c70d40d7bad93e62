"""Names for the places of a diagnosis, and the address that opens a place in the reader's editor."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from outplace import settings
from outplace.files import naming
from outplace.model import Site


class Places:
    """One diagnosis' own: each line of source has one name, by which graph, timeline and source point at it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._names: dict[tuple[str, int], str] = {}

    def name(self, site: Site) -> str:
        """The name of the line that a site begins in."""
        return self._names.setdefault((site.file, site.line), f"{self._prefix}-at{len(self._names) + 1}")


def editor_link(site: Site) -> str:
    """The address, as `OUTPLACE_EDITOR` says; empty where it is not set, or where the site is no line of a file."""
    form = settings.EDITOR.read()
    if not form or site.file.startswith("<") or naming.document(site.file) != naming.path(site.file):
        return ""
    path = Path(os.path.abspath(Path(naming.working_folder or os.curdir, site.file))).as_posix()
    return form.format(path=quote(path.lstrip("/"), safe="/:"), line=site.line, column=site.column + 1)
