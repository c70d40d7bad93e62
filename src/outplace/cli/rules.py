"""`outplace rules`: lists every rule."""

from __future__ import annotations

import json

import click
from rich.text import Text

from outplace.cli.options import color
from outplace.knowledge.kind import Kind
from outplace.knowledge.kinds import KINDS
from outplace.report.console import for_stream
from outplace.report.layout import hanging, indented, wrap

_RAISED = {
    "OUT1": ("operation", "at the operation"),
    "OUT2": ("backward", "at backward"),
    "OUT3": ("never", "nowhere"),
}
_NARROW = 80


def raised(kind: Kind) -> tuple[str, str]:
    """When PyTorch raises it: a word for JSON, and words for people."""
    return _RAISED[kind.code[:4]]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the rules as a JSON list.")
@color
def rules(as_json: bool) -> None:
    """List all rules: code, name, when PyTorch raises it, and what it is about."""
    if as_json:
        click.echo(json.dumps([_plain(kind) for kind in KINDS], indent=2))
        return
    console = for_stream()
    # In a pipe each rule is one line, for grep.
    width = console.width if console.is_terminal else 1000
    for line in _table(width):
        console.print(line, soft_wrap=True)


def _plain(kind: Kind) -> dict[str, str]:
    plain = {"code": kind.code, "name": kind.name, "raised": raised(kind)[0], "summary": kind.summary}
    return plain | ({"family": kind.family} if kind.family != kind.name else {})


def _table(width: int) -> list[Text]:
    names = max(len(kind.name) for kind in KINDS)
    moments = max(len(when) for _, when in _RAISED.values())
    lines: list[Text] = []
    for kind in KINDS:
        when = raised(kind)[1]
        if width < _NARROW:
            lines += wrap(Text.assemble((kind.code, "bold"), f" {kind.name} ", (f"raised {when}", "dim")), width)
            lines += [indented(line, 2) for line in wrap(Text(kind.summary), width - 2)]
        else:
            head = Text.assemble((kind.code, "bold"), f"  {kind.name:<{names}}  ", (f"{when:<{moments}}", "dim"))
            lines += hanging(head, Text(kind.summary), width, head.cell_len + 2)
    return lines
