"""What a command could not do, said in one line."""

from __future__ import annotations

from typing import IO, Any

import click


class OutplaceError(click.ClickException):
    """An error whose message is for the person at the terminal; it carries the exit code of the command."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click calls it a class variable

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message the way outplace prints everything of its own."""
        click.echo(f"outplace: {self.format_message()}", file=file, err=file is None)
