"""The JSON report for tools: `outplace run --json FILE`. Fields are added, never renamed."""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from outplace.errors import OutplaceError
from outplace.files.naming import under_cwd
from outplace.files.writing import reason, replace_text
from outplace.model import Diagnosis, Site
from outplace.report.excerpts import excerpts
from outplace.report.words import rule_name
from outplace.version import __version__

SCHEMA = 1


class ReportError(OutplaceError):
    """A report could not be written."""


def report(diagnoses: Sequence[Diagnosis], torch_version: str | None) -> dict[str, Any]:
    """The whole report as plain data."""
    return {
        "schema": SCHEMA,
        "outplace": __version__,
        "torch": None if torch_version is None else str(torch_version),  # torch.__version__ is a str subclass
        "python": platform.python_version(),
        "diagnoses": [_diagnosis(diagnosis) for diagnosis in diagnoses],
        "sources": {
            under_cwd(file): {str(number): text for number, text in lines.items()}
            for file, lines in excerpts(diagnoses).items()
        },
    }


def write(path: str | os.PathLike[str], diagnoses: Sequence[Diagnosis], torch_version: str | None) -> None:
    """Write the report to `path` in one step: a reader finds the old file or the whole new one."""
    write_data(path, report(diagnoses, torch_version))


def write_data(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write a report that is plain data already."""
    text = json.dumps(data, indent=2, ensure_ascii=True) + "\n"
    target = Path(path)
    try:
        replace_text(target, text)
    except OSError as error:
        raise ReportError(f"cannot write the report to {target}: {reason(target, error)}") from error


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    return {"kind": diagnosis.kind, "code": diagnosis.code, "rule": rule_name(diagnosis), **_plain(diagnosis)}


def _plain(value: Any) -> Any:
    """A dataclass as a dict of its fields, a tuple as a list; files by their short names."""
    if is_dataclass(value):
        data = {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
        return data | {"file": under_cwd(value.file)} if isinstance(value, Site) else data
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


# -- reading it back ---------------------------------------------------------------------------------------------------


def read_diagnosis(entry: dict[str, Any]) -> Diagnosis:
    """The diagnosis that an entry of a report stands for; files are named as they are there."""
    diagnosis: Diagnosis = _read(Diagnosis, entry)
    return diagnosis


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, data: Any) -> Any:
    """The value of a type that plain data stand for. A field that an older report lacks has its default."""
    inner = [part for part in get_args(kind) if part is not NoneType]
    if is_dataclass(kind):
        types = _types(kind).items()  # type: ignore[arg-type]
        return kind(**{name: _read(part, data[name]) for name, part in types if name in data})  # type: ignore[operator]
    if get_origin(kind) is tuple and data is not None:
        return tuple(_read(inner[0], item) for item in data)
    if get_origin(kind) is UnionType and data is not None:
        return _read(inner[0], data)
    return data
