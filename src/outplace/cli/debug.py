"""`outplace debug`: looks inside outplace itself."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator
from itertools import groupby

import click
from rich.text import Text

from outplace.errors import OutplaceError
from outplace.report import reporter
from outplace.report.console import for_stream
from outplace.report.layout import indented, wrap
from outplace.runtime.patches.table import Patch, Section, listed

_MODULES = ("torch", "torch.utils.checkpoint", "torch._dynamo.eval_frame", "torch._dynamo.output_graph")
"""The modules that sections wait for. All are imported before the list is made."""


@click.group(hidden=True)
def debug() -> None:
    """Look inside outplace itself."""


@debug.command()
@click.option("--json", "as_json", is_flag=True, help="Print the rows as a JSON list.")
def patches(as_json: bool) -> None:
    """List everything that outplace changes in torch and Python while a program runs, and why.

    Nothing is changed by listing it. All of it is undone when outplace detaches.
    """
    rows = list(listed(_sections()))
    if as_json:
        click.echo(json.dumps([_plain(section, row) for section, row in rows], indent=2))
        return
    console = for_stream()
    for line in _lines(rows, console.width):
        console.print(line, soft_wrap=True)


def _sections() -> Iterator[Section]:
    try:
        for module in _MODULES:
            importlib.import_module(module)
    except ImportError as error:
        raise OutplaceError(f"the table of patches needs torch: {error}", 2) from None
    from outplace.reclaim.observe import probe
    from outplace.runtime.program import evidence, launch, seeds, session
    from outplace.runtime.program.attachment import Attachment

    yield from Attachment("marks").sections()
    yield from (launch.RUNNING, launch.SHOWN, session.forks(reporter))
    yield from (*seeds.sections(1), evidence.example(), probe.example())


def _plain(section: Section, row: Patch) -> dict[str, str]:
    return {"section": section.name, "target": row.target, "how": row.how, "why": row.why, "undone": row.undoing}


def _lines(rows: Iterable[tuple[Section, Patch]], width: int) -> Iterator[Text]:
    """A heading for each section. Targets with the same reason are grouped."""
    for section, together in groupby(rows, key=lambda entry: entry[0]):
        yield Text(section.name, "bold")
        for (how, why, undone), same in groupby(together, key=lambda entry: _reason(entry[1])):
            for _, row in same:
                yield Text.assemble("  ", (row.target, "cyan"), (f"  {how}", "dim"))
            text = f"{why} Undone: {undone[0].lower()}{undone[1:]}" if undone else why
            yield from (indented(line, 6) for line in wrap(Text(text), width - 6))
        yield Text()


def _reason(row: Patch) -> tuple[str, str, str]:
    return row.how, row.why, row.undone
