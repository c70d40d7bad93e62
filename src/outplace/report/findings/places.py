"""The place of a finding as text: `src/model.py:12:9`, `train.ipynb:cell 3:2:1`."""

from __future__ import annotations

import os

from outplace.checking.config import upwards
from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Failure, Note
from outplace.files import naming
from outplace.files.naming import under_cwd
from outplace.model import Site


def file(name: str) -> str:
    """The file, relative to the working folder if it is inside it, with its cell."""
    path, cell = split_cell(name)
    return under_cwd(path) if cell is None else f"{under_cwd(path)}:cell {cell}"


def start(site: Site) -> str:
    """Where the site begins; editors count columns from 1."""
    return f"{file(site.file)}:{site.line}:{site.column + 1}"


def message(about: Failure | Note) -> str:
    """`model.py:3: SyntaxError: invalid syntax`."""
    line = "" if about.line is None else f"{about.line}:"
    return f"{file(about.file)}:{line} {about.message}"


def in_repository(path: str) -> str:
    """The path from the root of the repository, or else from the working folder. A file elsewhere keeps its path."""
    if not os.path.isabs(path):
        return path.replace(os.sep, "/")
    roots = (folder for folder in upwards(os.getcwd()) if os.path.exists(os.path.join(folder, ".git")))
    root = next(roots, os.getcwd())
    return naming.relative_to(path, root).replace(os.sep, "/") if naming.is_inside(path, root) else path
