"""`outplace fix`: rewrites in-place bugs, from the source alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from outplace.checking import config as configs
from outplace.checking.notebook import SUFFIX
from outplace.checking.settings import Overrides, resolve
from outplace.cli.options import STDIN, flat, require_consistent
from outplace.errors import OutplaceError
from outplace.repair.facts.location import STYLES

if TYPE_CHECKING:
    from outplace.repair.drive.from_source import Repaired

STDIN_NAME = "<stdin>"


@dataclass(frozen=True)
class _Options:
    """The options of the command line."""

    paths: tuple[str, ...]
    diff: bool
    unsafe_fixes: bool
    style: str
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    exclude: tuple[str, ...]
    force_exclude: bool
    stdin_filename: str | None
    config: str | None
    isolated: bool
    quiet: bool


@click.command(short_help="Rewrite in-place bugs in source code.")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@click.option("--diff", is_flag=True, help="Print the changes and write nothing.")
@click.option("--unsafe-fixes", is_flag=True, help="Also apply unsafe fixes, and fix warnings. Review these changes.")
@click.option("--style", type=click.Choice(STYLES), default="auto", show_default=True, help="How to write x[i] = v.")
@click.option("--select", multiple=True, metavar="RULES", help="Fix only these rules: codes, code prefixes or names.")
@click.option("--ignore", multiple=True, metavar="RULES", help="Do not fix these rules.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERNS",
    help="Files and folders to skip, in addition to the defaults. Patterns as in .gitignore.",
)
@click.option("--force-exclude", is_flag=True, help="Skip excluded files even if you name them.")
@click.option("--stdin-filename", metavar="FILE", help="The file name to assume for stdin (path -).")
@click.option("--config", metavar="FILE", help="Use this configuration file instead of the nearest pyproject.toml.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("-q", "--quiet", is_flag=True, help="Print only diffs and errors.")
@click.pass_context
def fix(ctx: click.Context, /, **options: Any) -> None:
    """Rewrite in-place bugs, from the source alone.

    PATHS are files, folders, globs, or - for stdin. The default is the current folder. The code is not imported and
    not run. torch need not be installed. Only fixes that keep the meaning of the program are made. The remaining
    findings are counted. `outplace run --fix` can repair more: it runs the program, and runs it again to prove the fix.

    Exit codes: 0 nothing is left to fix, 1 something is (with --diff: something would change), 2 could not run.
    """
    ctx.exit(_Fix(_Options(**options)).run())


class _Fix:
    """One run of the command."""

    def __init__(self, options: _Options) -> None:
        self.options = options
        self.paths = options.paths or (".",)
        require_consistent(self.paths, options.stdin_filename, options.config, options.isolated, "fix")
        start = [options.stdin_filename or "."] if STDIN in self.paths else self.paths
        config = configs.choose(start, options.config, options.isolated)
        self.settings = resolve(config, _overrides(options))
        self.fixed = self.changed = 0
        self.left: set[tuple[str, int, str]] = set()
        self.editable: set[str] = set()
        self.shown: dict[str, tuple[str, str]] = {}
        """With `--diff`: the old and the new text of each file that would change."""
        self.failures: list[str] = []

    def run(self) -> int:
        """Fixes, reports, and returns the exit code."""
        if STDIN in self.paths:
            self._stdin()
        else:
            self._files()
        for failure in self.failures:
            click.echo(f"outplace: {failure}", err=True)
        if not self.options.quiet and (self.fixed or self.left or not self.failures):
            click.echo(self._summary(), err=STDIN in self.paths or self.options.diff)
        if self.failures:
            return 2
        return int(bool(self.changed)) if self.options.diff else int(bool(self.left))

    def _summary(self) -> str:
        if not self.fixed and not self.left:
            return "Nothing to fix."
        verb = "would be fixed" if self.options.diff else "fixed"
        summary = f"{self.fixed} {verb}, {len(self.left)} remaining."
        if any(code == "OUT202" for _, _, code in self.left):
            summary += "\nOUT202: only a run shows which fix is right. Try outplace run --fix."
        return summary

    def _files(self) -> None:
        from outplace.checking import discovery
        from outplace.files.reading import TORCH, too_large
        from outplace.repair.syntax import files

        root, excluded = self.settings.root, self.settings.excluded
        discovered = discovery.files_for(self.paths, root, excluded, self.options.force_exclude)
        for note in discovered.notes:
            click.echo(f"outplace: {note}", err=True)
        self.failures += [f"{_short_path(failure.file)}: {failure.message}" for failure in discovered.failures]
        self.editable = {path for path in discovered.files if path.endswith(".py")}
        self._leave_notebooks(sum(path.endswith(SUFFIX) for path in discovered.files))
        for path in (path for path in discovered.files if path in self.editable):
            try:
                document = files.read(path)
                skipped = too_large(path, len(document.data))
                if skipped is not None:
                    click.echo(f"outplace: {_short_path(path)}: {skipped}", err=True)
                elif TORCH in document.data:
                    self._repair(path, self.shown.get(path, ("", document.text))[1])
            except files.Unwritable as error:
                self.failures.append(f"{_place(path, error.line)}: {error}")
        for path, (old, new) in sorted(self.shown.items()):
            _print_diff(path, old, new)
        self.changed += len(self.shown)

    def _leave_notebooks(self, count: int) -> None:
        if count and not self.options.quiet:
            few = "1 notebook was not changed" if count == 1 else f"{count} notebooks were not changed"
            click.echo(f"outplace: {few}; outplace check shows what to change", err=True)

    def _deliver(self, texts: Mapping[str, str]) -> None:
        from outplace.repair.syntax import files

        documents = {path: files.read(path) for path in texts}
        if self.options.diff:
            self.shown.update({path: (documents[path].text, text) for path, text in texts.items()})
        else:
            files.write_all({path: documents[path].encode(text) for path, text in texts.items()}, documents)
            self.changed += len(texts)

    def _stdin(self) -> None:
        from outplace.repair.syntax.files import Document, Unwritable

        path = os.path.abspath(self.options.stdin_filename) if self.options.stdin_filename else STDIN_NAME
        self._leave_notebooks(int(path.endswith(SUFFIX)))
        data = sys.stdin.buffer.read()
        try:
            document = Document(data)
        except Unwritable as error:
            raise OutplaceError(f"{_place('stdin', error.line)}: {error}") from error
        result = self._repaired(path, document.text)
        self._tell(result)
        text = result.text
        self.changed += text != document.text
        if self.options.diff:
            _print_diff(self.options.stdin_filename or "stdin", document.text, text)
        else:
            sys.stdout.buffer.write(document.encode(text) if text != document.text else data)
            sys.stdout.buffer.flush()

    def _repair(self, path: str, text: str) -> None:
        """Fixes a file, and the other files on the command line that take part in its bugs."""
        from outplace.repair.drive.from_source import Repaired

        result = self._repaired(path, text)
        texts = {path: result.text, **result.elsewhere}
        try:
            self._deliver({file: new for file, new in texts.items() if file != path or new != text})
        except OutplaceError as error:
            self.failures.append(str(error))
            result = Repaired(text, (), (*result.left, *(finding for finding, _ in result.done)))
        self._tell(result)

    def _tell(self, result: Repaired) -> None:
        self.fixed += len(result.done)
        self.left |= {(finding.site.file, finding.site.line, finding.code) for finding in result.left}
        if not self.options.quiet and not self.options.diff:
            for finding, candidate in result.done:
                place = _place(finding.site.file, finding.site.line)
                click.echo(f"{place}: {finding.code} {finding.kind}: {candidate.title}", err=STDIN in self.paths)
            for (file, line), titles in result.meanings.items():
                click.echo(f"{_place(file, line)}: {_choice(titles)}", err=STDIN in self.paths)

    def _repaired(self, path: str, text: str) -> Repaired:
        from outplace.checking.again import Recheck
        from outplace.checking.file_check import internal
        from outplace.repair.drive.from_source import Repaired, repair
        from outplace.repair.syntax.files import Unwritable

        again = Recheck(path, self.settings, {path: new for path, (_, new) in self.shown.items()})
        others = dict if STDIN in self.paths else again.others
        style, unsafe = self.options.style, self.options.unsafe_fixes
        try:
            return repair(path, text, again.check, again.is_selected, unsafe, style, others, self.editable)  # type: ignore[arg-type]
        except Unwritable as error:
            self.failures.append(f"{_place(path, error.line)}: {error}")
        except Exception as error:
            self.failures.append(f"{_short_path(path)}: {internal(path, error).message}")
        return Repaired(text, (), ())


def _print_diff(path: str, old: str, new: str) -> None:
    from outplace.repair.syntax.patch import unified

    click.echo(unified(_short_path(path), old, new), nl=False)


def _place(path: str, line: int | None) -> str:
    return f"{_short_path(path)}:{line}" if line else _short_path(path)


def _short_path(path: str) -> str:
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def _choice(titles: tuple[str, ...]) -> str:
    """The fixes that the user has to choose from."""
    if len(titles) == 1:
        return f"OUT202 stepped: not fixed; --unsafe-fixes would do this: {titles[0]}"
    return "".join(
        [
            "OUT202 stepped: not fixed; the source does not show which of these is right:",
            *(f"\n  - {title}" for title in titles),
        ]
    )


def _overrides(options: _Options) -> Overrides:
    return Overrides(os.getcwd(), flat(options.select), ignore=flat(options.ignore), exclude=flat(options.exclude))
