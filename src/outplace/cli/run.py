"""`outplace run`: runs a program as Python does, and prints the diagnosis after its traceback."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from outplace import settings
from outplace.cli.options import color
from outplace.cli.program import Misplaced, ProgramCommand, check_writable, misplaced, say_written
from outplace.errors import OutplaceError
from outplace.knowledge import versions
from outplace.repair.facts.bug import INTENTS, Intent
from outplace.repair.facts.location import STYLES, Style


@click.command(
    cls=ProgramCommand,
    options_metavar="[OPTIONS] (SCRIPT | -m MODULE | -c CODE) [ARGS]...",
    short_help="Run a program and name the lines.",
)
@click.option("--json", "json_path", type=click.Path(), metavar="FILE", help="Write the diagnoses to FILE as JSON.")
@click.option(
    "--html", "html_path", type=click.Path(), metavar="FILE", help="Write the diagnoses to FILE as an HTML page."
)
@click.option(
    "--guard", is_flag=True, help="Compare the contents of every saved tensor. Finds writes that Python cannot observe."
)
@click.option("--strict", is_flag=True, help="Raise an error if a gradient is silently wrong.")
@click.option("--fix", is_flag=True, help="Repair the files, and run again to prove the repair.")
@click.option("--diff", is_flag=True, help="Like --fix, but print the changes and write nothing.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix: also apply unsafe fixes. Review these changes.")
@click.option(
    "--style", type=click.Choice(STYLES), default="auto", show_default=True, help="With --fix: how to write x[i] = v."
)
@click.option(
    "--intent",
    type=click.Choice(INTENTS),
    help="With --fix: the weights for a loss whose backward comes after an optimizer step.",
)
@click.option(
    "--fix-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="With --fix: time limit for all proofs together.",
)
@color
@click.pass_context
def run(
    ctx: click.Context,
    json_path: str | None,
    html_path: str | None,
    guard: bool,
    strict: bool,
    fix: bool,
    diff: bool,
    unsafe_fixes: bool,
    style: Style,
    intent: Intent | None,
    fix_timeout: float,
) -> Callable[[], Any]:
    """Run a program; when an in-place operation breaks its backward, name the lines.

    \b
    outplace run train.py --my args
    outplace run -m package.train --my args
    outplace run -c "import torch; ..."

    The program behaves as under plain Python: same arguments, output and exit code. The diagnosis of an in-place error
    follows the traceback on stderr: the tensor, the line that saved it, the lines that overwrote it, why that breaks
    the gradient, and what to write instead. Child processes are watched too. Silently wrong gradients are reported
    when the program ends; with --strict an exception is raised at once.
    """
    program = ctx.obj
    if not program:
        raise click.UsageError("Which program? Try: outplace run train.py", ctx)
    if (unsafe_fixes or style != "auto" or intent) and not (fix or diff):
        raise click.UsageError("--unsafe-fixes, --style and --intent need --fix or --diff.", ctx)
    for path in (json_path, html_path):
        if path is not None:
            check_writable(path)
    if json_path is not None and html_path is not None and os.path.realpath(json_path) == os.path.realpath(html_path):
        raise OutplaceError("--json and --html name the same file")
    _set_environment(guard, strict)
    if fix or diff:
        from outplace.cli.repairing import Repairing

        repairing = Repairing(program, json_path, html_path, not diff, unsafe_fixes, style, intent, fix_timeout)
        return repairing.run
    json_path, html_path = (path and os.path.abspath(path) for path in (json_path, html_path))
    options = misplaced(ctx)
    return lambda: _launch(options, json_path, html_path)


def _set_environment(guard: bool, strict: bool) -> None:
    """Sets the options in the environment, for child processes, too."""
    settings.check()
    for flag, is_set in ((settings.GUARD, guard), (settings.STRICT, strict)):
        if is_set:
            flag.put(True)


def _launch(options: Misplaced, json_path: str | None, html_path: str | None) -> Any:
    from outplace.report import reporter
    from outplace.runtime.program.launch import Program, execute
    from outplace.runtime.program.session import Targets

    words = options.words
    if settings.EVIDENCE.read():  # one of the runs of `--fix`
        from outplace.runtime.program import evidence

        evidence.start()
    else:
        if words[0] not in ("-", "-c") and not options.options:  # an option of ours among them gets a line of its own
            reporter.repair = shlex.join(["outplace", "run", "--fix", *words])
        # Registered first, so it runs last: when the reports are written.
        atexit.register(_say_at_the_end, options, (json_path, html_path), os.getpid())
    ways = {"-m": "module", "-c": "code"}
    if words[0] in ways:
        if len(words) < 2:
            raise OutplaceError(f"argument expected for the {words[0]} option")
        program = Program(ways[words[0]], words[1], tuple(words[2:]))  # type: ignore[arg-type]
    else:
        program = Program("script", words[0], tuple(words[1:]))
    return execute(program, Targets(json_path, html_path), reporter)


def _say_at_the_end(options: Misplaced, reports: tuple[str | None, ...], process: int) -> None:
    if os.getpid() != process or sys.stderr is None:  # a forked child
        return
    _say_about_torch()
    options.say("run", _own_sources())
    say_written(*reports)


def _say_about_torch() -> None:
    """Says what to do if there is no torch, or one that outplace does not know."""
    error = getattr(sys, "last_value", None)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        print(
            f"outplace: torch is not installed for {sys.executable}, which runs outplace. Install outplace into the\n"
            "environment that has torch:\n"
            "  pip   python -m pip install outplace   (with that environment's python)\n"
            "  uv    uv pip install outplace   (with that environment active), or uv add --dev outplace\n"
            "  pipx  pipx inject outplace torch   (only if your program needs nothing else)",
            file=sys.stderr,
        )
    said = versions.remark(str(getattr(sys.modules.get("torch"), "__version__", "")))
    if said is not None:
        print(f"outplace: {said}", file=sys.stderr)


def _own_sources() -> Iterator[str]:
    """The texts of the program's own modules that were loaded."""
    from outplace.runtime.record.user_files import own_files

    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and own_files[file]:
            with contextlib.suppress(OSError):
                yield Path(file).read_text("utf-8", "replace")
