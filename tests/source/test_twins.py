"""Programs that fail under PyTorch, each with a twin that works: what PyTorch says, beside what reading them says.

In twins.txt a line marked `# wrong` stands only in the first of the two, one marked `# right` only in the second;
`# saves` and `# overwrites` mark the lines that a finding must name.
"""

import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from outplace.model import Finding
from outplace.source.analysis import check_file
from outplace.source.project import Project

_MARKS = re.compile(r"\s*# ((?:wrong|right|saves|overwrites)(?:, (?:saves|overwrites))*)$")
_REFUSED = re.compile(r"in-?place|memory location|leaf Variable|out=|[Ii]nference tensor")

Place = tuple[str, int]


@dataclass
class Program:
    """One of the two: its files, and the lines that are marked."""

    files: dict[str, str]
    saves: set[Place]
    overwrites: set[Place]


def _read(section: str, kept: str) -> Program:
    files: dict[str, list[str]] = {"main.py": []}
    marked: dict[str, set[Place]] = {"saves": set(), "overwrites": set()}
    lines = files["main.py"]
    name = "main.py"
    for line in section.splitlines():
        if line.startswith("### "):
            name = line.removeprefix("### ")
            lines = files.setdefault(name, [])
            continue
        found = _MARKS.search(line)
        marks = found[1].split(", ") if found else []
        if kept in marks or not {"wrong", "right"}.intersection(marks):
            lines.append(line[: found.start()] if found else line)
            for mark in marks:
                marked.get(mark, set()).add((name, len(lines)))
    return Program({name: "\n".join([*lines, ""]) for name, lines in files.items()}, **marked)


_SECTIONS = dict(
    section.split("\n", 1)
    for section in re.split(r"^=== ", Path(__file__).with_name("twins.txt").read_text("utf-8"), flags=re.MULTILINE)[1:]
)


def _run(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs it; the message of what it raises."""
    for name, text in program.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    before = set(sys.modules)
    torch.manual_seed(0)
    try:
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder))
            runpy.run_path(str(folder / "main.py"), run_name="__main__")
    except RuntimeError as error:
        return str(error)
    finally:
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
    return ""


def _findings(program: Program, folder: Path) -> list[Finding]:
    project = Project([str(folder)])
    return [
        finding
        for name, text in program.files.items()
        for finding in check_file(str(folder / name), text, project).findings
    ]


def _place(site: object, folder: Path) -> Place:
    return str(Path(site.file).relative_to(folder)), site.line  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", _SECTIONS)
def test_wrong_and_right(name: str, tmp_path, monkeypatch, capsys) -> None:
    wrong, right = _read(_SECTIONS[name], "wrong"), _read(_SECTIONS[name], "right")
    message, printed = _run(wrong, tmp_path / "wrong", monkeypatch), capsys.readouterr().out
    assert _run(right, tmp_path / "right", monkeypatch) == ""
    if message:
        assert _REFUSED.search(message)
    else:
        assert printed != capsys.readouterr().out  # nothing is raised, and the gradients are wrong

    found = _findings(wrong, tmp_path / "wrong")
    assert {_place(finding.site, tmp_path / "wrong") for finding in found} == wrong.overwrites
    if wrong.saves:
        assert {_place(finding.saved_by, tmp_path / "wrong") for finding in found if finding.saved_by} <= wrong.saves
        assert any(finding.saved_by for finding in found)
    assert not _findings(right, tmp_path / "right")
