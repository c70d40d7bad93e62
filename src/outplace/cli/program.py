"""Commands that run a program: their own options come first, all from the program's name on is the program's."""

from __future__ import annotations

import os

import click

from outplace.errors import OutplaceError


class ProgramCommand(click.Command):
    """Leaves the program's words in `ctx.obj`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the words before click sees them."""
        valued = {
            name for option in self.params if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }  # fmt: skip
        own, ctx.obj = _split(args, valued)
        rest = super().parse_args(ctx, own)
        if ctx.obj and ctx.obj[0].endswith(".ipynb"):
            raise OutplaceError(
                f"{ctx.obj[0]} is a notebook: run %load_ext outplace in it, then the cell that fails; "
                f"or have its source read: outplace check {ctx.obj[0]}"
            )
        return rest


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
    """Says so before a long run, not after it."""
    if path == "-":
        raise OutplaceError("cannot write -: a report needs a file, stdout is the program's")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise OutplaceError(f"cannot write {path}: there is no folder {folder}")
    if os.path.isdir(path):
        raise OutplaceError(f"cannot write {path}: it is a folder")
    if not os.access(folder, os.W_OK):
        raise OutplaceError(f"cannot write {path}: the folder is not writable")
