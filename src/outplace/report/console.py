"""Makes consoles that never read the user's text as markup."""

from __future__ import annotations

import os
from typing import IO

from rich.console import Console

PIPED_WIDTH = 100


def for_stream(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (stdout where none is given); NO_COLOR, TERM=dumb and COLUMNS are heeded by rich."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console
