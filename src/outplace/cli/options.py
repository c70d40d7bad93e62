"""Options that `check` and `fix` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

from outplace.errors import OutplaceError

STDIN = "-"

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def many(name: str, metavar: str, text: str) -> _Decorator:
    """An option that can be repeated, and that takes several values with commas."""
    return click.option(name, multiple=True, metavar=metavar, help=text)


def flat(values: Iterable[str]) -> list[str]:
    """The single values of such an option."""
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def require_consistent(
    paths: Sequence[str], stdin_filename: str | None, config: str | None, isolated: bool, command: str
) -> None:
    """Raises an error if options contradict each other."""
    if STDIN in paths and len(paths) > 1:
        verb = "fixed" if command == "fix" else "checked"
        raise OutplaceError(f"- (stdin) cannot be {verb} together with other paths")
    if stdin_filename and STDIN not in paths:
        raise OutplaceError(f"--stdin-filename needs the path -: outplace {command} --stdin-filename FILE -")
    if config and isolated:
        raise OutplaceError("--config and --isolated cannot be used together")
