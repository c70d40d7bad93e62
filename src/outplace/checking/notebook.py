"""A Jupyter notebook as one Python source, and the cell of each of its lines."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from outplace.files.quiet import quietly
from outplace.files.reading import Unreadable
from outplace.model import Finding, Site
from outplace.repair.syntax.edits import both_names

SUFFIX = ".ipynb"

# The magics whose cell is still Python. Others (%%bash, %%html, %%writefile) are not.
_PYTHON_MAGICS = frozenset(["capture", "memray_flamegraph", "prun", "python", "python3", "pypy", "time", "timeit"])
_MAGIC = re.compile(r"(?P<indent>\s*)(?:[%!?]|\S.*\?\??\s*$)")
_ASSIGNED = re.compile(r"(?P<target>\s*[\w.,\s\[\]]+=\s*)[%!]")
_CELL = re.compile(r"(.*\.ipynb):cell (\d+)", re.DOTALL)


def cell_name(path: str, cell: int) -> str:
    """The file of a site in a notebook: `train.ipynb:cell 3`. Text cells count, too; the first cell is 1."""
    return f"{path}:cell {cell}"


def split_cell(file: str) -> tuple[str, int | None]:
    """The notebook and the cell of such a file name; other names are unchanged."""
    match = _CELL.fullmatch(file)
    return (match[1], int(match[2])) if match else (file, None)


@dataclass(frozen=True)
class Notebook:
    """`source`: all Python cells. `lines[n - 1]`: for line n, the cell and the line in that cell."""

    source: str
    lines: list[tuple[int, int]]

    def locate(self, line: int) -> tuple[int, int]:
        """The cell, and the line in it, for a line of the source."""
        return self.lines[min(max(line, 1), len(self.lines)) - 1] if self.lines else (1, 1)

    def in_cell(self, finding: Finding, path: str) -> Finding:
        """The finding with its sites and its diff given by cell."""
        saved, fix = finding.saved_by, finding.fix
        if fix and fix.diff:
            fix = replace(fix, diff=self._diff(fix.diff, path))
        return replace(
            finding, site=self._site(finding.site, path), saved_by=saved and self._site(saved, path), fix=fix
        )

    def _site(self, site: Site, path: str) -> Site:
        if site.file != path:
            return site
        cell, line = self.locate(site.line)
        return replace(site, file=cell_name(path, cell), line=line, end_line=line + site.end_line - site.line)

    def _diff(self, diff: str, path: str) -> str:
        """The diff of the source as one diff for each changed cell."""
        _, *hunks = re.split(r"^@@ -(\d+).*\n", diff, flags=re.MULTILINE)
        cells: dict[int, list[str]] = {}
        grown: dict[int, int] = {}
        for start, body in zip(hunks[::2], hunks[1::2], strict=True):
            for cell, first, lines in self._pieces(int(start), body.split("\n")[:-1]):
                added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
                if added or removed:
                    new = first + grown.get(cell, 0)
                    head = f"@@ -{first},{len(lines) - added} +{new},{len(lines) - removed} @@"
                    cells.setdefault(cell, []).extend([head, *lines])
                    grown[cell] = grown.get(cell, 0) + added - removed
        names = {cell: cell_name(path, cell) for cell in cells}
        headers = {cell: both_names(name) for cell, name in names.items()}
        all_lines = [
            line for cell, (old, new) in headers.items() for line in (f"--- {old}", f"+++ {new}", *cells[cell])
        ]
        return "".join(f"{line}\n" for line in all_lines)

    def _pieces(self, line: int, hunk: list[str]) -> list[tuple[int, int, list[str]]]:
        """The lines of a hunk by cell, with the first line in the cell. `line`: the first line in the source."""
        pieces: list[tuple[int, int, list[str]]] = []
        replaces = False
        for text in hunk:
            added = text.startswith("+")
            if not (added and replaces):  # a new line stays with the one it replaces
                cell, first = self.locate(line)
            if not pieces or pieces[-1][0] != cell:
                pieces.append((cell, first, []))
            pieces[-1][2].append(text)
            replaces = text.startswith("-") or (added and replaces)
            line += not added
        return pieces


def read(data: bytes) -> Notebook:
    """The notebook in a file's bytes. A notebook in another language has an empty source."""
    cells = _load(data)
    texts: list[str] = []
    lines: list[tuple[int, int]] = []
    for number, cell in enumerate(cells, 1):
        source = _python(cell)
        if source is None:
            continue
        cell_lines = python_lines(source)
        texts += cell_lines
        lines += [(number, line) for line in range(1, len(cell_lines) + 1)]
    return Notebook("".join(f"{text}\n" for text in texts), lines)


def cell_sources(data: bytes) -> dict[int, str]:
    """The unchanged Python cells, by number."""
    sources = {number: _python(cell) for number, cell in enumerate(_load(data), 1)}
    return {number: source for number, source in sources.items() if source is not None}


def _load(data: bytes) -> list[Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not a notebook: {_why(data, error)}", getattr(error, "lineno", None)) from error
    cells = _cells(content)
    if not isinstance(cells, list):
        raise Unreadable("not a notebook: it has no list of cells")
    return cells if _is_python(content) else []


def _why(data: bytes, error: Exception) -> str:
    if not data.strip():
        return "the file is empty"
    return f"invalid JSON ({error.msg})" if isinstance(error, json.JSONDecodeError) else "invalid JSON"


def _cells(content: Any) -> Any:
    if not isinstance(content, dict):
        return None
    sheets = content.get("worksheets")  # version 3 and before
    if isinstance(sheets, list) and "cells" not in content:
        return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells", [])]
    return content.get("cells")


def _is_python(content: dict[str, Any]) -> bool:
    metadata = content.get("metadata")
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        info = metadata.get(key) if isinstance(metadata, dict) else None
        language = info.get(name) if isinstance(info, dict) else None
        if isinstance(language, str):
            return "python" in language.lower()
    return True


def _python(cell: Any) -> str | None:
    """The source of a code cell; None for text, and for cells in another language (`%%bash`)."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise Unreadable("not a notebook: a code cell has no source")
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    magic = re.match(r"\s*%%(\w+)", source)
    return None if magic and magic[1] not in _PYTHON_MAGICS else source


def python_lines(source: str) -> list[str]:
    """A cell's lines, with magics, shell commands and `?` commented out. The number of lines stays the same."""
    lines = source.split("\n")
    return lines if _parses(source) else list(_harmless(lines))


def _parses(source: str) -> bool:
    try:
        with quietly():
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _harmless(lines: list[str]) -> Iterator[str]:
    continued = False
    depth = 0  # of open brackets: inside, `% b` on its own line is Python
    for line in lines:
        bare = line.lstrip()
        magic, assigned = _MAGIC.match(line), _ASSIGNED.match(line)
        if depth <= 0 and (continued or bare.startswith("%%")):
            yield f"# {line}"
        elif depth <= 0 and assigned:
            yield f"{assigned['target']}None  # {bare}"
        elif depth <= 0 and magic and not bare.startswith("#"):
            yield f"{magic['indent']}pass  # {bare}"
        else:
            depth += sum(line.count(sign) for sign in "([{") - sum(line.count(sign) for sign in ")]}")
            yield line
            continue
        continued = line.rstrip().endswith("\\")
