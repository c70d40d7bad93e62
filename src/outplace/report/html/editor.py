"""The address that opens a line of source in the reader's editor."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from outplace import settings
from outplace.files import naming
from outplace.model import Site


def link(site: Site) -> str:
    """As `OUTPLACE_EDITOR` says; empty where it is not set, or where the site is no line of a file."""
    form = settings.EDITOR.read()
    if not form or site.file.startswith("<") or naming.document(site.file) != naming.path(site.file):
        return ""
    path = Path(os.path.abspath(Path(naming.working_folder or os.curdir, site.file))).as_posix()
    return form.format(path=quote(path.lstrip("/"), safe="/:"), line=site.line, column=site.column + 1)
