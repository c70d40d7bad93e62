"""The command line: one file for each command, loaded when it is called. Errors are printed only here."""

from __future__ import annotations

import atexit
import difflib
import gc
import importlib
import sys
from collections.abc import Callable
from typing import Any

import click

from outplace.errors import OutplaceError
from outplace.version import __version__

_COMMANDS = {
    "check": "Find in-place bugs in source code, before anything runs.",
    "completion": "Print the shell code that completes commands and options.",
    "explain": "Explain a rule, a kind of bug, or an error message.",
    "fix": "Rewrite in-place bugs in source code.",
    "lsp": "Serve an editor: findings, explanations and fixes while you type.",
    "op": "Show what an operation saves for its backward, and what may be overwritten after it.",
    "reclaim": "Find, prove and write in-place forms that save memory.",
    "rules": "List all rules.",
    "run": "Run a program; when an in-place operation breaks its backward, name the lines.",
}


_HIDDEN = ("debug",)
"""Commands for people who work on outplace itself."""


class _Commands(click.Group):
    """Loads a command's module when it is called, so that `--version` is fast and imports no torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS and name not in _HIDDEN:
            return None
        command: click.Command = getattr(importlib.import_module(f"outplace.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for suffix, command in ((".py", "run"), (".ipynb", "check")):
            if args and args[0].endswith(suffix):
                ctx.fail(f"No such command {args[0]!r}. Did you mean: outplace {command} {args[0]}")
        if args and args[0] not in (*_COMMANDS, *_HIDDEN) and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean: outplace {near[0]}" if near else f" The commands are {', '.join(_COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def _say_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from outplace.knowledge.versions import environment

        click.echo(f"outplace {__version__} ({environment()})")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V", "--version", is_flag=True, expose_value=False, is_eager=True, callback=_say_version, help="Show the versions."
)
def cli() -> None:
    """In-place tensor operations and PyTorch's autograd: find the lines, learn why, write it right."""


def main(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    if arguments is None and sys.argv[1:2] == ["check"]:
        gc.disable()  # the process ends soon: a collection would be wasted time
        atexit.register(gc.freeze)  # Python makes one more when it ends, of all objects that are not frozen
    try:
        result = _command(arguments)
        # `run` returns a function that starts the program. It is called here, outside click, because click handles
        # exceptions, signals and closed pipes in its own way.
        return int(result()) if isinstance(result, Callable) else int(result or 0)  # type: ignore[arg-type]
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130


def _command(arguments: list[str] | None) -> Any:
    try:
        return cli.main(args=arguments, prog_name="outplace", standalone_mode=False)
    except OSError as error:  # usually a full disk
        where = f"{error.filename}: " if error.filename else ""
        raise OutplaceError(f"{where}{(error.strerror or str(error)).lower()}") from error
