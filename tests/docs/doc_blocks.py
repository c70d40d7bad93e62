"""The code blocks of README and docs, and what a comment before one says about trying it.

`<!-- exit: 1, 0 -->`   the exit codes of a block's commands (0 where nothing is said)
`<!-- in: folder -->`   the page's commands are tried in a copy of this folder of the repository
`<!-- setup ... -->`    code that a reader would have, run before the block
`<!-- not run: why -->` a block that cannot be tried here
`<!-- file: name ... -->` a file that the page's commands are about and that need not be shown
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGLISH = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<rest>[^\n`]*)$")
_COMMENT = re.compile(r"<!--\s*(exit|in|setup|not run)\b:?\s*(.*?)\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    title: str | None
    text: str
    notes: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text("utf-8").split("\n")
    number = last = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            number += 1
            continue
        indent, start = len(fence["indent"]), number + 1
        number = start
        while lines[number].strip() != "```":
            number += 1
        body = "\n".join(line[indent:] for line in lines[start:number])
        title = re.search(r'title="([^"]+)"', fence["rest"])
        between = "\n".join(lines[last : start - 1])
        notes = {match[1]: match[2] for match in _COMMENT.finditer(between)}
        found.append(Block(page, start, fence["language"], title and title[1], body, notes))
        number += 1
        last = number
    return found


def hidden_files(page: Path) -> dict[str, str]:
    """The files that a page has in comments."""
    found = re.findall(r"^<!-- file: (\S+)\n(.*?)^-->", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return dict(found)


@dataclass(frozen=True)
class Command:
    block: Block
    text: str
    expected: list[str]
    exit_code: int


def commands(block: Block) -> list[Command]:
    """The commands of a console block, each with the output that is shown."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block.name}: output before the first command"
    codes = [int(code) for code in block.notes.get("exit", "0").split(",")]
    codes += [codes[-1]] * (len(parts) - 1 - len(codes))
    made = []
    for part, code in zip(parts[1:], codes, strict=True):
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command}\n{more}"
        made.append(Command(block, command, output.split("\n"), code))
    return made


def mismatch(expected: list[str], output: str) -> str | None:
    """What of the expected output did not come. A line of three dots stands for any lines, a blank one for none."""
    lines = [line.rstrip() for line in output.split("\n") if line.strip()]
    at = 0
    piece: list[str] = []
    for line in [*(one.rstrip() for one in expected if one.strip()), "..."]:
        if line != "...":
            piece.append(line)
            continue
        spots = [spot for spot in range(at, len(lines) - len(piece) + 1) if lines[spot : spot + len(piece)] == piece]
        if not spots:
            missing = [line for line in piece if line not in lines[at:]] or piece
            return "not in the output:\n" + "\n".join(missing)
        at, piece = spots[0] + len(piece), []
    return None
