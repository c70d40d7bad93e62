"""Loads the op table, at its first use."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

SCHEMA = 1


@cache
def table() -> dict[str, Any]:
    """The contents of `op_table.json`; `tools/generate_op_table.py` writes it."""
    from importlib import resources  # only now: it takes longer to import than all of this package

    text = resources.files(__package__).joinpath("op_table.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
