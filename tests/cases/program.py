"""A program of the cases and the truth it carries, as marks in its own source.

The first line says the kind (`# kind: saved`, `# kind: legal`), the tensor's name where it is known for sure
(`# kind: saved, tensor: h`), and the oldest or the newest torch in which it is so, if not all (`, since torch 2.10`,
`, until torch 2.13`).
`# overwrites` stands on each line whose in-place operation does the harm, `# saves` on each line whose backward needs
the overwritten value. A program of several files is a folder that is run by its `main.py`, or by `-m` where it has a
`__main__.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "programs"

Line = tuple[str, int]
"""A file, relative to the folder the program is run in, and a line in it."""


@dataclass(frozen=True)
class Program:
    name: str
    folder: Path
    """Where it is run."""
    command: tuple[str, ...]
    kind: str
    tensor: str | None
    since: tuple[int, int]
    """The oldest torch that it can be told in."""
    until: tuple[int, int]
    """The newest torch in which it fails."""
    overwrites: frozenset[Line]
    saves: frozenset[Line]


@dataclass(frozen=True)
class Found:
    """What outplace reported, in the same terms."""

    kinds: set[str] = field(default_factory=set)
    overwrites: set[Line] = field(default_factory=set)
    saves: set[Line] = field(default_factory=set)
    names: set[str | None] = field(default_factory=set)


def all_programs() -> list[Program]:
    return [_read(path) for path in sorted(FOLDER.iterdir()) if path.suffix == ".py" or path.is_dir()]


def _read(path: Path) -> Program:
    if path.is_file():
        folder, main, command = path.parent, path, (path.name,)
    elif (path / "main.py").exists():
        folder, main, command = path, path / "main.py", ("main.py",)
    else:
        folder, main, command = path.parent, path / "__main__.py", ("-m", path.name)
    first = main.read_text().splitlines()[0]
    head = re.fullmatch(
        r"# kind: ([\w-]+)(?:, tensor: (.+?))?(?:, since torch (\d+)\.(\d+))?(?:, until torch (\d+)\.(\d+))?", first
    )
    assert head is not None, f"{main} does not begin with its kind"
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return Program(
        name=path.stem,
        folder=folder,
        command=command,
        kind=head[1],
        tensor=head[2],
        since=(int(head[3] or 0), int(head[4] or 0)),
        until=(int(head[5] or 99), int(head[6] or 0)),
        overwrites=_marked(files, folder, "overwrites"),
        saves=_marked(files, folder, "saves"),
    )


def _marked(files: list[Path], folder: Path, word: str) -> frozenset[Line]:
    return frozenset(
        (str(file.relative_to(folder)), number)
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(rf"# (?:\w+, )*{word}\b", line)
    )


def found_in(report: dict[str, Any]) -> Found:
    found = Found()
    for diagnosis in report["diagnoses"]:
        savers = [diagnosis["saved_by"], *diagnosis.get("also_saved_by", [])]
        found.kinds.add(diagnosis["kind"])
        found.names.add(diagnosis["tensor"]["name"])
        found.overwrites.update(_line(mutation["site"]) for mutation in diagnosis["mutations"])
        found.saves.update(_line(saver["site"]) for saver in savers if saver)
    return found


def _line(site: dict[str, Any] | None) -> Line:
    return (site["file"], site["line"]) if site else ("unknown", 0)
