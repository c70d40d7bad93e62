"""Rewrites in-place bugs in files: what `fix`, `check --fix` and `check --diff` do."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from outplace.checking.config import Config
from outplace.checking.notebook import SUFFIX
from outplace.checking.settings import resolve
from outplace.cli.options import SourceOptions
from outplace.errors import OutplaceError
from outplace.files.naming import under_cwd

if TYPE_CHECKING:
    from outplace.repair.drive.from_source import Repaired

STDIN_NAME = "<stdin>"


class Fixing:
    """One run over the files, or over stdin."""

    def __init__(self, options: SourceOptions, config: Config, stdout_is_taken: bool = False) -> None:
        """`stdout_is_taken`: what was fixed is told on stderr."""
        self.options = options
        self.settings = resolve(config, options.overrides())
        self._aside = stdout_is_taken or options.stdin
        self.fixed = self.changed = 0
        self.left: set[tuple[str, int, str]] = set()
        self.editable: set[str] = set()
        self.shown: dict[str, tuple[str, str]] = {}
        """With `--diff`: the old and the new text of each file that would change."""
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.unwritten: list[str] = []
        """Of the failures: those of files that could be read and fixed, but not written."""
        self.stdin = b""
        """The source from stdin, after the fixes."""

    def run(self) -> int:
        """Fixes, reports, and returns the exit code."""
        self.apply()
        for remark in (*self.notes, *self.failures):
            click.echo(f"outplace: {remark}", err=True)
        if not self.options.quiet and (self.fixed or self.left or not self.failures):
            click.echo(self._summary(), err=self._aside or self.options.diff)
        if self.failures:
            return 2
        return int(bool(self.changed)) if self.options.diff else int(bool(self.left))

    def apply(self) -> None:
        """Fixes, and prints what was fixed or the diff."""
        if self.options.stdin:
            self._stdin()
        else:
            self._files()

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
        from outplace.checking.file_check import unparsable_data
        from outplace.files.reading import TORCH, too_large
        from outplace.repair.syntax import files

        root, excluded = self.settings.root, self.settings.excluded
        paths = self.options.paths or (".",)
        discovered = discovery.files_for(paths, root, excluded, self.options.force_exclude)
        self.notes += discovered.notes
        self.failures += [f"{under_cwd(failure.file)}: {failure.message}" for failure in discovered.failures]
        named = {os.path.abspath(path) for path in paths if os.path.isfile(path)}
        self.editable = {path for path in discovered.files if path.endswith(".py")}
        self._leave_notebooks(sum(path.endswith(SUFFIX) for path in discovered.files))
        for path in (path for path in discovered.files if path in self.editable):
            try:
                document = files.read(path)
                skipped = too_large(path, len(document.data))
                if skipped is not None:
                    self.notes.append(f"{under_cwd(path)}: {skipped}")
                elif TORCH in document.data:
                    self._repair(path, self.shown.get(path, ("", document.text))[1])
                elif path in named and (failure := unparsable_data(path, document.data)) is not None:
                    self.failures.append(f"{_place(path, failure.line)}: {failure.message}")
            except files.Unwritable as error:
                self.failures.append(f"{_place(path, error.line)}: {error}")
        for path, (old, new) in sorted(self.shown.items()):
            _print_diff(path, old, new)
        self.changed += len(self.shown)

    def _leave_notebooks(self, count: int) -> None:
        if count and not self.options.quiet:
            few = "1 notebook was not changed" if count == 1 else f"{count} notebooks were not changed"
            self.notes.append(f"{few}; outplace check shows what to change")

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
        self._say_slow(self.options.stdin_filename or "stdin", result)
        text = result.text
        self.changed += text != document.text
        if self.options.diff:
            _print_diff(self.options.stdin_filename or "stdin", document.text, text)
        else:
            self.stdin = document.encode(text) if text != document.text else data
            sys.stdout.buffer.write(self.stdin)
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
            self.unwritten.append(str(error))
            result = Repaired(text, (), (*result.left, *(finding for finding, _ in result.done)))
        self._tell(result)
        self._say_slow(path, result)

    def _tell(self, result: Repaired) -> None:
        self.fixed += len(result.done)
        self.left |= {(finding.site.file, finding.site.line, finding.code) for finding in result.left}
        if not self.options.quiet and not self.options.diff:
            from outplace.repair.facts.bug import two_orders

            for finding, candidate in result.done:
                place = _place(finding.site.file, finding.site.line)
                click.echo(f"{place}: {finding.code} {finding.kind}: {candidate.title}", err=self._aside)
                if candidate.intent is not None:
                    click.echo(two_orders(candidate.intent, "outplace run --fix "), err=self._aside)
            for (file, line), titles in result.meanings.items():
                rules = [item for item in result.left if (item.site.file, item.site.line) == (file, line)]
                rule = f"{rules[0].code} {rules[0].kind}"
                click.echo(f"{_place(file, line)}: {rule}: {_choice(titles)}", err=self._aside)

    def _say_slow(self, path: str, result: Repaired) -> None:
        """Says that not everything was tried. What was fixed until then is proved like any other fix."""
        if result.ran_out:
            rest = "what is left was not tried to the end" if result.done else "nothing was changed"
            click.echo(f"outplace: {under_cwd(path)}: takes too long to fix; {rest}", err=True)

    def _repaired(self, path: str, text: str) -> Repaired:
        from outplace.checking.again import Recheck
        from outplace.checking.file_check import internal
        from outplace.repair.drive.from_source import Repaired, repair
        from outplace.repair.syntax.files import Unwritable

        again = Recheck(path, self.settings, {path: new for path, (_, new) in self.shown.items()})
        others = dict if self.options.stdin else again.others
        style, unsafe = self.options.style, self.options.unsafe_fixes
        try:
            repaired = repair(path, text, again.check, again.is_selected, unsafe, style, others, self.editable)  # type: ignore[arg-type]
            if self.options.verbose:
                self.notes += [f"{_place(note.file, note.line)}: {note.message}" for note in again.cut]
            return repaired
        except Unwritable as error:
            self.failures.append(f"{_place(path, error.line)}: {error}")
        except Exception as error:
            self.failures.append(f"{under_cwd(path)}: {internal(path, error).message}")
        return Repaired(text, (), ())


def _print_diff(path: str, old: str, new: str) -> None:
    from outplace.repair.syntax.edits import unified_diff
    from outplace.report.console import for_stream
    from outplace.report.diff import print_diff

    diff, console = unified_diff(under_cwd(path), old, new), for_stream()
    if console.color_system is None:
        click.echo(diff, nl=False)  # every byte as it is: a patch may be made of it
    else:
        print_diff(diff, console)


def _place(path: str, line: int | None) -> str:
    return f"{under_cwd(path)}:{line}" if line else under_cwd(path)


def _choice(titles: tuple[str, ...]) -> str:
    """The fixes that the user has to choose from."""
    if len(titles) == 1:
        return f"not fixed; --unsafe-fixes would do this: {titles[0]}"
    return "".join(
        [
            "not fixed; the source does not show which of these is right:",
            *(f"\n  - {title}" for title in titles),
        ]
    )
