"""Makes consoles that never read the user's text as markup."""

from __future__ import annotations

import os
from typing import IO, Literal

from rich.console import Console

from outplace import settings

PIPED_WIDTH = 100


def for_stream(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (stdout if None). `--color`, NO_COLOR, FORCE_COLOR, TERM=dumb and COLUMNS are respected."""
    colors = _color_system()
    console = Console(file=stream, color_system=colors, no_color=False, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


def _color_system() -> Literal["auto", "standard"] | None:
    """What rich may use. None: no escape codes at all, so that NO_COLOR also turns bold off."""
    color = settings.COLOR.read()
    if color == "always":
        return "standard"
    return None if color == "never" or os.environ.get("NO_COLOR") else "auto"
