"""What `check` and `fix` have in common: how they read their command lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

from outplace.errors import OutplaceError

STDIN = "-"

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def many(name: str, metavar: str, text: str) -> _Decorator:
    """An option whose values may be given one by one or with commas between them."""
    return click.option(name, multiple=True, metavar=metavar, help=text)


def flat(values: Iterable[str]) -> list[str]:
    """The values of such an option, one by one."""
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def require_consistent(
    paths: Sequence[str], stdin_filename: str | None, config: str | None, isolated: bool, command: str
) -> None:
    """Raises an error where options contradict each other."""
    if STDIN in paths and len(paths) > 1:
        done = "fixed" if command == "fix" else "checked"
        raise OutplaceError(f"- (stdin) cannot be {done} together with other paths")
    if stdin_filename and STDIN not in paths:
        raise OutplaceError(f"--stdin-filename is for the path -: outplace {command} --stdin-filename FILE -")
    if config and isolated:
        raise OutplaceError("--config and --isolated exclude each other")
