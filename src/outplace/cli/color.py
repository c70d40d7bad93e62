"""`--color`, an option of all commands that print for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from outplace import settings

_F = TypeVar("_F", bound=Callable[..., Any])


def color(command: _F) -> _F:
    """Adds `--color`."""
    return click.option(
        "--color",
        type=click.Choice(settings.COLORS),
        expose_value=False,
        callback=_set_color,
        help="Use colours: always, never, or only in a terminal (auto, the default).",
    )(command)


def _set_color(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        settings.COLOR.put(value)
