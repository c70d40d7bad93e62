"""`outplace check`: finds in-place bugs in source code, before anything runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from outplace.checking.config import FORMATS
from outplace.checking.outcome import Outcome, Result
from outplace.checking.settings import resolve
from outplace.cli.options import SourceOptions, source_options
from outplace.errors import OutplaceError
from outplace.files.naming import under_cwd

if TYPE_CHECKING:
    from outplace.checking.baseline import Baseline
    from outplace.checking.discovery import Found
    from outplace.checking.outcome import Failure, Note
    from outplace.model import Finding

STATISTICS = ("text", "concise", "json")
"""The formats that `--statistics` can have."""
FOR_MACHINES = ("json", "junit", "sarif", "gitlab")
"""Formats for programs. With these, errors are also printed to stderr."""
WITH_FIXES = ("text", "json", "sarif")
"""Formats that show how a finding can be fixed."""


@dataclass(frozen=True)
class _Options(SourceOptions):
    """The options of the command line."""

    add_noqa: bool
    watch: bool
    show_settings: bool
    output_format: str | None
    output_file: str | None
    statistics: bool
    baseline: str | None
    write_baseline: str | None
    no_cache: bool
    cache_dir: str | None
    jobs: int | None
    exit_zero: bool


_ALONE = ("diff", "add_noqa", "watch", "show_settings", "write_baseline")
"""Options that decide what the command does. Only one of them can be used."""


@click.command(short_help="Find in-place bugs in source code.")
@click.option("--fix", is_flag=True, help="Apply safe fixes first, as `outplace fix` does, and show what remains.")
@source_options
@click.option("--add-noqa", is_flag=True, help="Add a `# noqa: CODE` comment to each line with a finding. Exit 0.")
@click.option("-w", "--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option("--show-settings", is_flag=True, help="Print the settings that would be used, and check nothing.")
@click.option("--output-format", type=click.Choice(FORMATS), help="The output format. Default: text.")
@click.option(
    "-o", "--output-file", type=click.Path(), metavar="FILE", help="Write the findings to FILE instead of stdout."
)
@click.option("--statistics", is_flag=True, help="Print only the number of findings for each rule.")
@click.option("--baseline", type=click.Path(), metavar="FILE", help="Hide the findings listed in FILE.")
@click.option(
    "--write-baseline", type=click.Path(), metavar="FILE", help="Write all findings to FILE for --baseline. Exit 0."
)
@click.option("-n", "--no-cache", is_flag=True, help="Do not read or write the cache.")
@click.option(
    "--cache-dir",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="The cache folder. Default: .outplace_cache.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Number of processes. Default: one per core."
)
@click.option("-e", "--exit-zero", is_flag=True, help="Exit 0 even with findings.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the findings.")
@click.pass_context
def check(ctx: click.Context, /, **values: Any) -> None:
    """Find in-place bugs in source code, before anything runs.

    PATHS are files, folders, globs, or - for stdin. The default is the current folder. The code is not imported and
    not run. torch need not be installed.

    Exit codes: 0 nothing found, 1 findings or files that could not be analysed (with --fix: what remains; with --diff:
    something would change), 2 could not run.
    """
    options = _Options(**values)
    arguments = [f"--{name.replace('_', '-')}" for name in _ALONE if values[name]]
    if len(arguments) > 1:
        raise click.UsageError(f"{arguments[0]} and {arguments[1]} cannot be used together.", ctx)
    if options.watch:
        from outplace.cli import watching

        if options.stdin:
            raise click.UsageError("--watch needs files: stdin does not change.", ctx)
        ctx.exit(watching.watch(lambda: _Check(options)))
    ctx.exit(_Check(options).run())


class _Check:
    """One run of the command."""

    def __init__(self, options: _Options) -> None:
        self.options = options
        self.paths = options.paths or (".",)
        self.config = options.configuration("check")
        more = {name: getattr(options, name) for name in ("cache_dir", "no_cache", "baseline")}
        self.overrides = options.overrides(**more)
        self.settings = resolve(self.config, self.overrides)
        self.format = options.output_format or self.config.output_format
        if options.statistics and self.format not in STATISTICS:
            raise OutplaceError(f"--statistics has no {self.format} form; use the format text, concise or json")
        self.files: set[str] = set()
        self.dependencies: set[str] = set()
        self.stdin: bytes | None = None
        """What `--fix` has made of stdin."""
        self._said: set[str] = set()

    def run(self) -> int:
        """Does what the options ask, and returns the exit code."""
        if self.options.show_settings:
            from outplace.cli.settings_text import text

            _echo(text(self.config, self.overrides, self.settings, self.format), sys.stdout)
            return 0
        if self.options.diff:
            from outplace.cli.fixing import Fixing

            code = Fixing(self.options, self.config, stdout_is_taken=True).run()
            return 0 if self.options.exit_zero and code == 1 else code
        return self.check()

    def check(self) -> int:
        """Checks, reports, and returns the exit code."""
        baseline = self._baseline()
        self._warn_of_ruff()
        unwritten = self._fix() if self.options.fix else []
        result = self._result(self._outcomes(), baseline)
        unwritten += self._deliver(result)
        for problem in unwritten:
            self._say(problem, always=True)
        if unwritten or any(failure.internal for failure in result.failures):
            return 2
        passes = self.options.exit_zero or self.options.write_baseline or self.options.add_noqa
        return 1 if (result.findings or result.failures) and not passes else 0

    def _result(self, outcomes: list[Outcome], baseline: Baseline | None) -> Result:
        self.dependencies = {path for outcome in outcomes for path in outcome.dependencies}
        findings = self.settings.keep(finding for outcome in outcomes for finding in outcome.findings)
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        notes = [note for outcome in outcomes for note in outcome.notes]
        self._say_all(note for note in notes if self.options.verbose or not note.cut)
        if baseline is not None:
            findings = baseline.unknown(findings)
            self._say_stale(baseline.stale(self.files, self.settings.codes))
        left_out, cut = [note for note in notes if note.left_out], [note for note in notes if note.cut]
        return Result(findings, failures, left_out, cut)

    def _deliver(self, result: Result) -> list[str]:
        """Reports the result or writes what the options ask for. Returns what could not be written."""
        if self.options.write_baseline:
            self._write_baseline(self.options.write_baseline, result)
        elif self.options.add_noqa:
            return self._add_noqa(result)
        else:
            self._report(result)
        return []

    def _fix(self) -> list[str]:
        """Applies fixes, and returns what could not be written."""
        from outplace.cli.fixing import Fixing

        fixing = Fixing(self.options, self.config, stdout_is_taken=True)
        fixing.apply()
        self.stdin = fixing.stdin if self.options.stdin else None
        if fixing.fixed:
            self._say(f"{fixing.fixed} fixed")
        return fixing.unwritten

    def _add_noqa(self, result: Result) -> list[str]:
        """Adds comments for all findings, and says how many. Returns what could not be written."""
        from outplace.checking import noqa
        from outplace.checking.notebook import split_cell
        from outplace.repair.syntax.files import Unwritable

        by_file: dict[str, list[Finding]] = {}
        for finding in result.findings:
            by_file.setdefault(split_cell(finding.site.file)[0], []).append(finding)
        self._say_all(result.failures, always=True)
        count, unwritten = 0, []
        for file, findings in by_file.items():
            try:
                count += noqa.add(file, findings)
            except Unwritable as error:
                unwritten.append(f"{under_cwd(file)}: {error}")
        self._say(f"added {count} noqa {'comment' if count == 1 else 'comments'}")
        return unwritten

    def _outcomes(self) -> list[Outcome]:
        return self._from_stdin() if self.options.stdin else self._from_files()

    def _shows_fixes(self) -> bool:
        counts_only = self.options.statistics or self.options.write_baseline or self.options.add_noqa
        return self.format in WITH_FIXES and not counts_only

    def _from_stdin(self) -> list[Outcome]:
        from outplace.checking import file_check
        from outplace.files import reading
        from outplace.source.project import Project

        name = self.options.stdin_filename
        path = os.path.abspath(name) if name else "<stdin>"
        data = sys.stdin.buffer.read() if self.stdin is None else self.stdin
        if reading.TORCH not in data:
            failure = file_check.unparsable_data(path, data)
            return [Outcome(path, failure=failure)] if failure else []
        if self.format == "text":
            from outplace.report.findings.text import show_data

            show_data(path, data)
        return [file_check.check_data(path, data, Project(self.settings.roots), self._shows_fixes())]

    def _from_files(self) -> list[Outcome]:
        from outplace.checking import progress, runner
        from outplace.checking.cache import Cache

        discovered = self._discovered()
        self.files = set(discovered.files)
        for note in discovered.notes:
            self._say(note)
        roots, folder = self.settings.roots, self.settings.cache_dir
        cache = Cache(folder, roots) if folder else None
        with progress.bar(self.options.quiet) as tell:
            outcomes = runner.check(discovered.files, roots, cache, self.options.jobs, tell, self._shows_fixes())
        failures = [*discovered.failures, *self._broken(outcomes)]
        return [*outcomes, *(Outcome(failure.file, failure=failure) for failure in failures)]

    def _broken(self, outcomes: list[Outcome]) -> list[Failure]:
        """The files that the user named, that are no Python, and that were not analysed."""
        from outplace.checking.file_check import unparsable

        known = {outcome.file for outcome in outcomes if outcome.failure or outcome.findings}
        named = self.files & {os.path.abspath(path) for path in self.paths if os.path.isfile(path)}
        return [failure for path in sorted(named - known) if (failure := unparsable(path)) is not None]

    def watched(self) -> list[str]:
        """The files that a new check would depend on."""
        return [*self._discovered().files, *self.dependencies, *filter(None, [self.config.file])]

    def _discovered(self) -> Found:
        from outplace.checking import discovery

        root, excluded = self.settings.root, self.settings.excluded
        return discovery.files_for(self.paths, root, excluded, self.options.force_exclude)

    def _baseline(self) -> Baseline | None:
        if self.settings.baseline is None or self.options.write_baseline:
            return None
        from outplace.checking.baseline import Baseline

        return Baseline(self.settings.baseline)

    def _write_baseline(self, path: str, result: Result) -> None:
        from outplace.checking import baseline

        count = baseline.write(path, result.findings)
        self._say_all(result.failures, always=True)
        self._say(f"wrote {count} {'finding' if count == 1 else 'findings'} to {path}")

    def _say_stale(self, stale: int) -> None:
        if stale and not self.settings.errors_only:
            few = "1 finding of the baseline is" if stale == 1 else f"{stale} findings of the baseline are"
            self._say(f"{few} gone; update it with --write-baseline")

    def _warn_of_ruff(self) -> None:
        from outplace.checking import ruff_conflict

        text = None if self.options.isolated else ruff_conflict.warning(self.options.start)
        if text:
            self._say(text)

    def _report(self, result: Result) -> None:
        if self.options.output_file not in (None, "-"):
            self._write(self.options.output_file, result)
        else:
            self._print(result)
        if self.options.statistics or self.format in FOR_MACHINES:
            self._say_all(result.failures, always=True)

    def _print(self, result: Result) -> None:
        if self.format == "text" and not self.options.statistics:
            from outplace.report.console import for_stream
            from outplace.report.findings import text

            text.render(result, for_stream(self._stream()), self.options.quiet)
        else:
            _echo(self._plain(result), self._stream())

    def _stream(self) -> TextIO:
        """Where the findings go. With --fix, stdout is for the fixed source of stdin."""
        return sys.stdout if self.stdin is None else sys.stderr

    def _write(self, path: str, result: Result) -> None:
        from outplace.files.writing import reason, replace_text

        try:
            replace_text(Path(path), _encodable(self._plain(result), "utf-8"))
        except OSError as error:
            raise OutplaceError(f"cannot write the findings to {path}: {reason(Path(path), error)}") from error

    def _plain(self, result: Result) -> str:
        from outplace.report import findings

        if self.options.statistics:
            return findings.statistics(result, self.format)
        return findings.render(result, self.format, self.options.quiet)

    def _say_all(self, remarks: Iterable[Failure | Note], always: bool = False) -> None:
        for remark in remarks:
            self._say(_message(remark), always)

    def _say(self, text: str, always: bool = False) -> None:
        """Prints a remark once, on stderr: stdout is for the findings."""
        if text not in self._said and (always or not self.options.quiet):
            self._said.add(text)
            _echo(f"outplace: {text}\n", sys.stderr)


def _echo(text: str, stream: TextIO) -> None:
    """Prints a text, with characters escaped that the stream cannot encode (file names may contain any)."""
    click.echo(_encodable(text, getattr(stream, "encoding", None) or "utf-8"), file=stream, nl=False)


def _encodable(text: str, encoding: str) -> str:
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _message(about: Failure | Note) -> str:
    from outplace.report.findings.places import message

    return message(about)
