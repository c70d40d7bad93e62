"""Loads the op table for the torch that is installed, at its first use."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from outplace.knowledge.versions import installed, numbers

SCHEMA = 1


@cache
def table() -> dict[str, Any]:
    """The op table for the torch that is installed here, or the whole one if there is none."""
    return table_for(installed())


def table_for(torch: str | None) -> dict[str, Any]:
    """The op table for a version of torch: the last one that is not newer, or the oldest.

    `op_table.json` is whole. `op_table_differences.json` holds, by version, what other versions have in its place.
    `tools/generate_op_table.py` writes both.
    """
    whole: dict[str, Any] = _read("op_table.json")
    own = numbers(whole["torch"]) or (0, 0)
    changes = {own: {}} | {numbers(change["torch"]) or own: change for change in _read("op_table_differences.json")}
    nearest = max((version for version in changes if version <= (numbers(torch or "") or own)), default=min(changes))
    return changed(whole, changes[nearest])


def changed(data: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A table with this difference. Entries of a part are replaced one by one; None removes one."""
    made = dict(data)
    for part, value in change.items():
        if isinstance(value, dict):
            entries = {**data[part], **value}
            value = {name: entry for name, entry in entries.items() if entry is not None}
        made[part] = value
    return made


def _read(name: str) -> Any:
    from importlib import resources  # only now: it takes longer to import than all of this package

    return json.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))
