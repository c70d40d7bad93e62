"""outplace's own `Reporter`: what a recording process prints and writes.

What a report needs (rich, jinja2) is loaded when the first one is made: most programs have nothing to report.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from outplace.model import Diagnosis, is_silent

repair = ""
"""The command that tries to repair the program that runs; empty where there is none."""


def note(diagnoses: Sequence[Diagnosis]) -> str:
    """The note that an exception carries."""
    from outplace.report.terminal import as_text

    return as_text(diagnoses)


def show(diagnoses: Sequence[Diagnosis], survived: bool) -> None:
    """Prints diagnoses: below the traceback that they belong to, or at the end those that the program survived."""
    if not survived:
        _print("", diagnoses)
        _offer_repair(diagnoses)
        return
    silent = [diagnosis for diagnosis in diagnoses if is_silent(diagnosis)]
    errors = [diagnosis for diagnosis in diagnoses if diagnosis not in silent]  # caught, or raised while it ended
    _print(f"outplace: the program went on after {_errors(len(errors))}:", errors)
    wrong = "gradient" if any(diagnosis.saved_by for diagnosis in silent) else "training"
    _print(f"outplace: nothing was raised here, but the {wrong} is not what it should be:", silent)


def _offer_repair(diagnoses: Sequence[Diagnosis]) -> None:
    """The last line of a failed run that `--fix` may repair."""
    repairable = any(fix.diff and diagnosis.kind != "freed" for diagnosis in diagnoses for fix in diagnosis.fixes)
    if repair and repairable and sys.stderr is not None:
        from rich.text import Text

        from outplace.report.console import for_stream

        for_stream(sys.stderr).print(Text(f"Repair it and prove the repair: {repair}", style="dim"), soft_wrap=True)


def data(diagnoses: Sequence[Diagnosis], torch_version: str | None) -> dict[str, Any]:
    """A report as plain data."""
    from outplace.report import json

    return json.report(diagnoses, torch_version)


def write(path: str, form: Literal["json", "html"], data: Mapping[str, Any]) -> None:
    """Writes a report to a file in one step."""
    if form == "json":
        from outplace.report import json

        json.write_data(path, data)
    else:
        from outplace.report import html

        html.write(path, data)


def _errors(count: int) -> str:
    return "this in-place error" if count == 1 else f"these {count} in-place errors"


def _print(heading: str, diagnoses: Sequence[Diagnosis]) -> None:
    if not diagnoses or sys.stderr is None:
        return
    from outplace.report.console import for_stream
    from outplace.report.terminal import render

    print(f"\n{heading}" if heading else "", file=sys.stderr)
    render(diagnoses, for_stream(sys.stderr))
