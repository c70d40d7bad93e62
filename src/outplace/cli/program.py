"""Commands that run a program: first their own options, then the program and its arguments."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from outplace.errors import OutplaceError
from outplace.files.naming import under_cwd

_SEPARATED = "outplace.separated"
"""Has the user put `--` before the program? Then every option after it is meant for the program."""


class ProgramCommand(click.Command):
    """Puts the program and its arguments into `ctx.obj`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments before click reads them."""
        valued = {
            name for option in self.params if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }  # fmt: skip
        own_args, ctx.obj = _split(args, valued)
        ctx.meta[_SEPARATED] = args[len(own_args) : len(own_args) + 1] == ["--"]
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


@dataclass(frozen=True)
class Misplaced:
    """Options of ours among the program's arguments: the positions of each one's words."""

    words: list[str]
    options: list[range]

    def say(self, command: str, sources: Iterable[str]) -> None:
        """Says how to write them. The program's `sources` may know an option: then it was meant for the program."""
        if not self.options:
            return
        texts = "\n".join(sources)
        ours = [at for at in self.options if not re.search(rf"\b{_either_dash(self.words[at[0]])}\b", texts)]
        if ours:
            first = [self.words[number] for at in ours for number in at]
            rest = [word for number, word in enumerate(self.words) if not any(number in at for at in ours)]
            line = shlex.join(["outplace", command, *first, *rest])
            arguments = f"{first[0]} comes after the program, so the program got it"
            print(f"outplace: {arguments}. To give it to outplace: {line}", file=sys.stderr)


def misplaced(ctx: click.Context) -> Misplaced:
    """The options of ours that stand after the program."""
    words: list[str] = ctx.obj
    lengths = {
        name: 1 if option.is_flag else 2
        for option in ctx.command.params if isinstance(option, click.Option)
        for name in option.opts if name.startswith("--")
    }  # fmt: skip
    options = [
        range(number, min(number + (1 if "=" in word else lengths[word.split("=")[0]]), len(words)))
        for number, word in enumerate(words)
        if number and word.split("=")[0] in lengths and not ctx.meta[_SEPARATED]
    ]
    return Misplaced(words, options)


def _either_dash(option: str) -> str:
    return option.split("=")[0].lstrip("-").replace("-", "[-_]")


def say_written(*paths: str | None) -> None:
    """Names the reports that were written, and says how to open a page."""
    for path in paths:
        if path is not None and os.path.isfile(path):  # not into a pipe
            how = (
                f"; open it in a browser: {Path(path).absolute().as_uri()}" if path.endswith((".html", ".htm")) else ""
            )
            print(f"outplace: wrote {under_cwd(os.path.abspath(path))}{how}", file=sys.stderr)


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
