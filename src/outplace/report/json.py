"""The report outside tools rely on: `outplace run --json FILE`. Fields are added, never renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outplace import __version__
from outplace.cli.errors import OutplaceError
from outplace.model import Diagnosis, Mutation, SavedTensor, Site
from outplace.report.words import under_cwd
from outplace.writing import reason, replace_text

SCHEMA = 1


class ReportError(OutplaceError):
    """A report could not be written where it was asked for."""


def report(diagnoses: Sequence[Diagnosis], torch_version: str | None) -> dict[str, Any]:
    """The whole report as plain data."""
    return {
        "schema": SCHEMA,
        "outplace": __version__,
        "torch": None if torch_version is None else str(torch_version),  # torch.__version__ is a str subclass
        "diagnoses": [_diagnosis(diagnosis) for diagnosis in diagnoses],
    }


def write(path: str | os.PathLike[str], diagnoses: Sequence[Diagnosis], torch_version: str | None) -> None:
    """Write the report to `path` in one step: a reader finds the old file or the whole new one."""
    write_data(path, report(diagnoses, torch_version))


def write_data(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    """Write a report that is plain data already."""
    text = json.dumps(data, indent=2, ensure_ascii=True) + "\n"
    target = Path(path)
    try:
        replace_text(target, text)
    except OSError as error:
        raise ReportError(f"cannot write the report to {target}: {reason(target, error)}") from error


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    tensor = diagnosis.tensor
    return {
        "kind": diagnosis.kind,
        "code": diagnosis.code,
        "error": diagnosis.error,
        "raised_at": _site(diagnosis.raised_at),
        "tensor": {
            "name": tensor.name,
            "shape": None if tensor.shape is None else list(tensor.shape),
            "dtype": tensor.dtype,
        },
        "saved_by": _saved(diagnosis.saved_by) if diagnosis.saved_by else None,
        "also_saved_by": [_saved(saved) for saved in diagnosis.also_saved_by],
        "mutations": [_mutation(mutation) for mutation in diagnosis.mutations],
        "made_at": _site(diagnosis.made_at),
        "why": diagnosis.why,
        "fixes": [{"title": fix.title, "safety": fix.safety, "diff": fix.diff} for fix in diagnosis.fixes],
        "notes": list(diagnosis.notes),
    }


def _saved(saved: SavedTensor) -> dict[str, Any]:
    return {"node": saved.node, "saved_as": saved.saved_as, "version": saved.version, "site": _site(saved.site)}


def _mutation(mutation: Mutation) -> dict[str, Any]:
    return {
        "operation": mutation.operation,
        "version": mutation.version,
        "count": mutation.count,
        "site": _site(mutation.site),
        "chain": [_site(site) for site in mutation.chain],
    }


def _site(site: Site | None) -> dict[str, Any] | None:
    if site is None:
        return None
    return {
        "file": under_cwd(site.file),
        "line": site.line,
        "end_line": site.end_line,
        "column": site.column,
        "end_column": site.end_column,
        "function": site.function,
        "text": site.text,
    }
