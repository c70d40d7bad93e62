"""Warns if the project's ruff turns `x = x + f(x)` into `x += f(x)`. That can create in-place bugs."""

from __future__ import annotations

import os
from typing import Any

from outplace.checking import config
from outplace.checking.config import upwards
from outplace.errors import OutplaceError

CODE = "PLR6104"
NAME = "non-augmented-assignment"


def warning(start: str) -> str | None:
    """The warning, if the ruff configuration nearest to `start` enables that rule."""
    for folder in upwards(start):
        for name in (".ruff.toml", "ruff.toml", "pyproject.toml"):
            path = os.path.join(folder, name)
            table = _table(path) if os.path.isfile(path) else None
            if table is not None:
                return _text(path) if enabled(table) else None
    return None


def _text(path: str) -> str:
    return (
        f"{path} enables ruff's {CODE} ({NAME}): its fix turns x = x + f(x) into x += f(x), "
        f"which overwrites a tensor that backward may need. Add {CODE} to ruff's ignore list"
    )


def _table(path: str) -> dict[str, Any] | None:
    """ruff's settings in this file; None if it has none or cannot be read."""
    try:
        data = config.load_toml(path)
    except OutplaceError:
        return None
    if os.path.basename(path) != "pyproject.toml":
        return data
    tool = data.get("tool")
    table = tool.get("ruff") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def enabled(table: dict[str, Any]) -> bool:
    """Do these settings of ruff enable the rule? A prefix enables it only in preview mode."""
    section = table.get("lint")
    lint: dict[str, Any] = section if isinstance(section, dict) else {}
    chosen = _strength(_listed("select", table, lint) + _listed("extend-select", table, lint))
    if chosen <= _strength(_listed("ignore", table, lint) + _listed("extend-ignore", table, lint)):
        return False
    preview = lint.get("preview", table.get("preview")) is True
    explicit = lint.get("explicit-preview-rules", table.get("explicit-preview-rules")) is True
    return chosen == len(CODE) or (preview and not explicit)


def _listed(key: str, *tables: dict[str, Any]) -> list[str]:
    lists = [table.get(key) for table in tables]
    return [item for items in lists if isinstance(items, list) for item in items if isinstance(item, str)]


def _strength(selectors: list[str]) -> int:
    """How exact the best selector is: 0 if none matches, the length of the code if one names the rule."""
    strengths = [0]
    for selector in selectors:
        if selector == NAME:
            strengths.append(len(CODE))
        elif selector == "ALL":
            strengths.append(1)
        elif selector and CODE.startswith(selector):
            strengths.append(len(selector))
    return max(strengths)
