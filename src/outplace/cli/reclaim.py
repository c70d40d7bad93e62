"""`outplace reclaim`: runs a few steps of a program and finds lines that can use less memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from outplace.cli.options import color
from outplace.cli.program import ProgramCommand, check_writable, misplaced, say_written
from outplace.errors import OutplaceError


@click.command(
    cls=ProgramCommand,
    options_metavar="[OPTIONS] (SCRIPT | -m MODULE) [ARGS]...",
    short_help="Find in-place forms that save memory.",
)
@click.option("--fix", is_flag=True, help="Write the proved changes to the files.")
@click.option("--diff", is_flag=True, help="Show the proved changes as a diff and write nothing.")
@click.option(
    "--steps", type=click.IntRange(1, 100), default=3, show_default=True, help="Number of optimizer steps to run."
)
@click.option("--all", "everything", is_flag=True, help="Also list safe changes that do not lower the peak.")
@click.option("--no-proof", is_flag=True, help="Run once and list what looks safe. Prove nothing.")
@click.option("--reproducible", is_flag=True, help="Use only CUDA algorithms that give the same bits in every run.")
@click.option(
    "--recompute", is_flag=True, help="Also recompute blocks in backward instead of storing their activations."
)
@click.option("--json", "json_path", type=click.Path(), metavar="FILE", help="Write the results to FILE as JSON.")
@click.option(
    "--html", "html_path", type=click.Path(), metavar="FILE", help="Write the results to FILE as an HTML page."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each run.",
)
@color
@click.pass_context
def reclaim(
    ctx: click.Context,
    fix: bool,
    diff: bool,
    steps: int,
    everything: bool,
    no_proof: bool,
    reproducible: bool,
    recompute: bool,
    json_path: str | None,
    html_path: str | None,
    timeout: float,
) -> Callable[[], Any]:
    """Find the lines where an in-place form is safe, and how much of the peak memory it saves.

    \b
    outplace reclaim train.py --my args
    outplace reclaim --fix -m package.train --my args

    Runs the program for a few optimizer steps, once unchanged and once with the changes. Losses, gradients and
    parameters must be equal, bit for bit. Writes nothing without --fix.
    """
    program = ctx.obj
    if not program:
        raise click.UsageError("Which program? Try: outplace reclaim train.py", ctx)
    if program[0] in ("-c", "-"):
        raise click.UsageError("reclaim needs a program that is in a file.", ctx)
    if program[0] == "-m" and len(program) < 2:
        raise click.UsageError("Argument expected for the -m option.", ctx)
    if no_proof and (fix or diff):
        raise click.UsageError("--no-proof cannot be used with --fix or --diff: only proved changes are written.", ctx)
    if program[0] != "-m" and not Path(program[0]).exists():
        raise OutplaceError(f"no such file: {program[0]}", 2)
    for path in (json_path, html_path):
        if path is not None:
            check_writable(path)

    options = misplaced(ctx)

    def start() -> int:
        from outplace.reclaim.drive.command import Command
        from outplace.repair.drive.processes import until_signal

        command = Command(
            program, steps, timeout, everything, not no_proof, reproducible, recompute, fix, diff, json_path, html_path
        )
        try:
            with until_signal():
                code = command.run()
            options.say("reclaim", _source(program))
            if code == 0:
                say_written(json_path, html_path)
            return code
        except KeyboardInterrupt:
            state = f"{command.written} was written" if command.written else "nothing was changed"
            print(f"outplace: stopped; {state}", file=sys.stderr)
            return 130

    return start


def _source(program: list[str]) -> list[str]:
    """The text of the script."""
    if program[0] == "-m":
        return []
    try:
        return [Path(program[0]).read_text("utf-8", "replace")]
    except OSError:
        return []
