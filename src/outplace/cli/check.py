"""`outplace check`: finds in-place bugs in source code, before anything runs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from outplace.checking import config as configs
from outplace.checking.config import FORMATS, SEVERITIES, common_folder
from outplace.checking.outcome import Outcome, Result
from outplace.checking.settings import Overrides, resolve
from outplace.cli.options import STDIN, flat, many, require_consistent
from outplace.errors import OutplaceError

if TYPE_CHECKING:
    from outplace.checking.baseline import Baseline
    from outplace.checking.outcome import Failure, Note


@dataclass(frozen=True)
class _Options:
    """The options of the command line."""

    paths: tuple[str, ...]
    select: tuple[str, ...]
    extend_select: tuple[str, ...]
    ignore: tuple[str, ...]
    severity: str | None
    assume_grad: bool | None
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    respect_gitignore: bool | None
    force_exclude: bool
    stdin_filename: str | None
    output_format: str | None
    output_file: str | None
    statistics: bool
    baseline: str | None
    write_baseline: str | None
    config: str | None
    isolated: bool
    no_cache: bool
    cache_dir: str | None
    jobs: int | None
    exit_zero: bool
    quiet: bool


@click.command(short_help="Find in-place bugs in source code.")
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@many("--select", "RULES", "The rules to check: codes, beginnings of codes (OUT2) or names. Default: all.")
@many("--extend-select", "RULES", "Rules to check in addition to the selected ones.")
@many("--ignore", "RULES", "Do not check these rules.")
@click.option("--severity", type=click.Choice(SEVERITIES), help="The lowest severity to show. `error` hides warnings.")
@click.option(
    "--assume-grad/--no-assume-grad",
    default=None,
    help="Warn of what breaks if a function's arguments require grad. Default: on.",
)
@many("--exclude", "PATTERNS", "Files and folders to skip, in addition to the defaults. Patterns as in .gitignore.")
@many("--extend-exclude", "PATTERNS", "The same as --exclude.")
@click.option(
    "--respect-gitignore/--no-respect-gitignore", default=None, help="Skip files that git ignores. Default: on."
)
@click.option("--force-exclude", is_flag=True, help="Skip excluded files even if you name them.")
@click.option("--stdin-filename", metavar="FILE", help="The file name to assume for stdin (path -).")
@click.option("--output-format", type=click.Choice(FORMATS), help="The output format. Default: text.")
@click.option("-o", "--output-file", metavar="FILE", help="Write the findings to FILE instead of stdout.")
@click.option("--statistics", is_flag=True, help="Print only the number of findings for each rule.")
@click.option("--baseline", metavar="FILE", help="Hide the findings listed in FILE.")
@click.option("--write-baseline", metavar="FILE", help="Write all findings to FILE for --baseline. Exit 0.")
@click.option("--config", metavar="FILE", help="Use this configuration file instead of the nearest pyproject.toml.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("-n", "--no-cache", is_flag=True, help="Do not read or write the cache.")
@click.option("--cache-dir", metavar="FOLDER", help="The cache folder. Default: .outplace_cache.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Number of processes. Default: one per core."
)
@click.option("-e", "--exit-zero", is_flag=True, help="Exit 0 even with findings.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the findings.")
@click.pass_context
def check(ctx: click.Context, /, **options: Any) -> None:
    """Find in-place bugs in source code, before anything runs.

    PATHS are files, folders, globs, or - for stdin. The default is the current folder. The code is not imported and
    not run. torch need not be installed.

    Exit codes: 0 nothing found, 1 findings or files that could not be analysed, 2 could not run.
    """
    ctx.exit(_Check(_Options(**options)).run())


class _Check:
    """One run of the command."""

    def __init__(self, options: _Options) -> None:
        self.options = options
        self.paths = options.paths or (".",)
        self.stdin = STDIN in self.paths
        require_consistent(self.paths, options.stdin_filename, options.config, options.isolated, "check")
        self.start = common_folder([options.stdin_filename or "."] if self.stdin else self.paths)
        self.config = configs.choose([self.start], options.config, options.isolated)
        self.settings = resolve(self.config, _overrides(options))
        self.format = options.output_format or self.config.output_format
        if options.statistics and self.format in ("sarif", "github"):
            raise OutplaceError(f"--statistics has no {self.format} form; use the format text, concise or json")
        self.files: set[str] = set()
        self._said: set[str] = set()

    def run(self) -> int:
        """Checks, reports, and returns the exit code."""
        baseline = self._baseline()
        self._warn_of_ruff()
        outcomes = self._outcomes()
        findings = self.settings.keep(finding for outcome in outcomes for finding in outcome.findings)
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        notes = [note for outcome in outcomes for note in outcome.notes]
        for note in notes:
            self._say(_message(note))
        if self.options.write_baseline:
            self._write_baseline(self.options.write_baseline, Result(findings, failures))
            return 2 if any(failure.internal for failure in failures) else 0
        if baseline is not None:
            findings = baseline.unknown(findings)
            self._say_stale(baseline.stale(self.files, self.settings.codes))
        result = Result(findings, failures, [note for note in notes if note.left_out])
        self._report(result)
        if any(failure.internal for failure in failures):
            return 2
        return 1 if (findings or failures) and not self.options.exit_zero else 0

    def _outcomes(self) -> list[Outcome]:
        return self._from_stdin() if self.stdin else self._from_files()

    def _from_stdin(self) -> list[Outcome]:
        from outplace.checking import file_check
        from outplace.files import reading
        from outplace.source.project import Project

        name = self.options.stdin_filename
        path = os.path.abspath(name) if name else "<stdin>"
        data = sys.stdin.buffer.read()
        if reading.TORCH not in data:
            return []
        if self.format == "text":
            from outplace.report.findings.text import show_data

            show_data(path, data)
        return [file_check.check_data(path, data, Project(self.settings.roots))]

    def _from_files(self) -> list[Outcome]:
        from outplace.checking import discovery, progress, runner
        from outplace.checking.cache import Cache

        root, excluded = self.settings.root, self.settings.excluded
        discovered = discovery.files_for(self.paths, root, excluded, self.options.force_exclude)
        self.files = set(discovered.files)
        for note in discovered.notes:
            self._say(note)
        roots, folder = self.settings.roots, self.settings.cache_dir
        cache = Cache(folder, roots) if folder else None
        with progress.bar(self.options.quiet) as tell:
            outcomes = runner.check(discovered.files, roots, cache, self.options.jobs, tell)
        return [*outcomes, *(Outcome(failure.file, failure=failure) for failure in discovered.failures)]

    def _baseline(self) -> Baseline | None:
        if self.settings.baseline is None or self.options.write_baseline:
            return None
        from outplace.checking.baseline import Baseline

        return Baseline(self.settings.baseline)

    def _write_baseline(self, path: str, result: Result) -> None:
        from outplace.checking import baseline

        count = baseline.write(path, result.findings)
        for failure in result.failures:
            self._say(_message(failure), always=True)
        self._say(f"wrote {count} {'finding' if count == 1 else 'findings'} to {path}")

    def _say_stale(self, stale: int) -> None:
        if stale and not self.settings.errors_only:
            few = "1 finding of the baseline is" if stale == 1 else f"{stale} findings of the baseline are"
            self._say(f"{few} gone; update it with --write-baseline")

    def _warn_of_ruff(self) -> None:
        from outplace.checking import ruff_conflict

        text = None if self.options.isolated else ruff_conflict.warning(self.start)
        if text:
            self._say(text)

    def _report(self, result: Result) -> None:
        if self.options.output_file not in (None, "-"):
            self._write(self.options.output_file, result)
        else:
            self._print(result)
        # The other formats contain the failures.
        if self.options.statistics or self.format in ("json", "sarif"):
            for failure in result.failures:
                self._say(_message(failure), always=True)

    def _print(self, result: Result) -> None:
        if self.format == "text" and not self.options.statistics:
            from outplace.report.console import for_stream
            from outplace.report.findings import text

            text.render(result, for_stream(), self.options.quiet)
        else:
            _echo(self._plain(result), sys.stdout)

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


def _overrides(options: _Options) -> Overrides:
    return Overrides(
        folder=os.getcwd(),
        select=flat(options.select),
        extend_select=flat(options.extend_select),
        ignore=flat(options.ignore),
        exclude=flat((*options.exclude, *options.extend_exclude)),
        respect_gitignore=options.respect_gitignore,
        severity=options.severity,
        assume_grad=options.assume_grad,
        cache_dir=options.cache_dir,
        no_cache=options.no_cache,
        baseline=options.baseline,
    )
