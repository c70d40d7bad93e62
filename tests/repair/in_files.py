"""Repairs of random programs that lie in two files."""

from __future__ import annotations

from collections.abc import Mapping

from outplace.model import Finding
from outplace.repair.drive.from_source import repair
from outplace.source.analysis import check_file
from outplace.source.project import Project

_STEM, _MAIN = "/modules/stem.py", "/modules/program.py"


def repaired_files(stem: str, main: str) -> tuple[str, str]:
    """Both files as `outplace fix` leaves them: the main one first, then the other."""
    files = {_STEM: stem, _MAIN: main}
    for path in (_MAIN, _STEM):
        files.update(_repaired(path, files))
    return files[_STEM], files[_MAIN]


def joined(stem: str, main: str) -> str:
    """Both files as one program."""
    leaves, rest = main.split("from stem import *\n\n")[1].split("\n\n", 1)
    return f"import torch\n\n{leaves}\n\n{stem}\n\n{rest}"


def _repaired(path: str, files: Mapping[str, str]) -> dict[str, str]:
    def check(path: str, text: str, elsewhere: Mapping[str, str] | None = None) -> list[Finding]:
        return check_file(path, text, Project((), {**files, **(elsewhere or {})})).findings

    others = {other: text for other, text in files.items() if other != path}
    result = repair(path, files[path], check, lambda _: True, others=others.copy, editable=tuple(files))
    return {path: result.text, **result.elsewhere}
