"""Short names for files and lines in reports: relative paths, and names of notebook cells."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import PurePath

from outplace.model import Site

cell_name: Callable[[str], str | None] | None = None
"""In a notebook: gives the cell of a compiled file (`Cell In[3]`); None for other files."""


def path(file: str) -> str:
    """The path relative to the working folder, if the file is inside it. A library file starts with its package."""
    named = cell_name(file) if cell_name else None
    relative = named or under_cwd(file)
    if relative != file:
        return relative
    parts = PurePath(file).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return str(PurePath(*parts[parts.index(folder) + 1 :]))
    return file


working_folder: str | None = None
"""The folder that paths are shown relative to; None for the current one, which a program may change."""


def under_cwd(file: str) -> str:
    """The path relative to the working folder, if the file is inside it; else unchanged."""
    try:
        inside = os.path.isabs(file) and is_inside(file, working_folder or os.curdir)
        return relative_to(file, working_folder or os.curdir) if inside else file
    except OSError:  # the working folder is gone
        return file


def relative_to(file: str, folder: str) -> str:
    """The path from a folder. On Windows a file on another drive keeps its path."""
    try:
        return os.path.relpath(file, folder)
    except ValueError:
        return file


def is_inside(file: str, folder: str) -> bool:
    """Is it this folder, or does it lie in it?"""
    relative = relative_to(file, folder)
    return relative.split(os.sep)[0] != os.pardir and not os.path.isabs(relative)


def place(file: str, line: int) -> str:
    """`train.py:12`, or the cell and the line."""
    cell = _cell(file)
    return f"{cell}, line {line}" if cell else f"{path(file)}:{line}"


def document(file: str) -> str:
    """The short path of a file, or the name of the cell."""
    return _cell(file) or path(file)


def _cell(file: str) -> str | None:
    named = cell_name(file) if cell_name else None
    if named:
        return named
    cell = re.match(r"<ipython-input-(\d+)", file)
    if cell:
        return f"Cell In[{cell[1]}]"
    return "Notebook cell" if "ipykernel_" in PurePath(file).parent.name else None


def where(site: Site) -> str:
    """`train.py:12 in forward`; the top level of a file needs no name."""
    spot = place(site.file, site.line)
    top = site.function in ("", "<module>") or site.function.startswith("<cell line")
    return spot if top else f"{spot} in {site.function}"


def signal_name(number: int) -> str:
    """`SIGKILL` of 9."""
    try:
        return signal.Signals(number).name
    except ValueError:  # it has no name
        return f"signal {number}"
