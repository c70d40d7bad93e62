"""`outplace fix`: rewrites in-place bugs, from the source alone."""

from __future__ import annotations

from typing import Any

import click

from outplace.cli.fixing import Fixing
from outplace.cli.options import SourceOptions, source_options


@click.command(short_help="Rewrite in-place bugs in source code.")
@source_options
@click.option("-q", "--quiet", is_flag=True, help="Print only diffs and errors.")
@click.pass_context
def fix(ctx: click.Context, /, **options: Any) -> None:
    """Rewrite in-place bugs, from the source alone.

    PATHS are files, folders, globs, or - for stdin. The default is the current folder. The code is not imported and
    not run. torch need not be installed. Only fixes that keep the meaning of the program are made. The remaining
    findings are counted. `outplace run --fix` can repair more: it runs the program, and runs it again to prove the fix.

    Exit codes: 0 nothing is left to fix, 1 something is (with --diff: something would change), 2 could not run.
    """
    arguments = SourceOptions(fix=True, **options)
    ctx.exit(Fixing(arguments, arguments.configuration("fix")).run())
