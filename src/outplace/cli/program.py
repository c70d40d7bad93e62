"""Commands that run a program: first their own options, then the program and its arguments."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem

from outplace.errors import OutplaceError


class ProgramCommand(click.Command):
    """Puts the program and its arguments into `ctx.obj`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments before click reads them."""
        valued = {
            name for option in self.params if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }  # fmt: skip
        own_args, ctx.obj = _split(args, valued)
        rest = super().parse_args(ctx, own_args)
        if ctx.obj and ctx.obj[0].endswith(".ipynb") and not ctx.resilient_parsing:
            raise OutplaceError(
                f"{ctx.obj[0]} is a notebook: run %load_ext outplace in it, then the cell that fails; "
                f"or check its source: outplace check {ctx.obj[0]}"
            )
        return rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes our options before the program, and file names from there on."""
        if incomplete.startswith("-") and not ctx.obj:
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(incomplete, type="file")]


def _split(args: list[str], valued: set[str]) -> tuple[list[str], list[str]]:
    index = 0
    while index < len(args):
        argument = args[index]
        if argument in ("-m", "-c") or not argument.startswith("-") or argument == "-":
            break
        if argument == "--":
            return args[:index], args[index + 1 :]
        index += 2 if argument in valued else 1
    return args[:index], args[index:]


def check_writable(path: str) -> None:
    """Raises an error before a long run if the report cannot be written after it."""
    if path == "-":
        raise OutplaceError("cannot write to -: a report needs a file, because the program uses stdout")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise OutplaceError(f"cannot write {path}: there is no folder {folder}")
    if os.path.isdir(path):
        raise OutplaceError(f"cannot write {path}: it is a folder")
    if not os.access(folder, os.W_OK):
        raise OutplaceError(f"cannot write {path}: the folder is not writable")
