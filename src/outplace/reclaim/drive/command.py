"""The `outplace reclaim` command: shows the suggestions, writes the files, restores them if the proof fails."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from outplace.errors import OutplaceError
from outplace.files.naming import under_cwd
from outplace.reclaim.drive.proving import Reclaim
from outplace.reclaim.drive.trials import Trials
from outplace.reclaim.outcome import Outcome
from outplace.reclaim.show import table
from outplace.reclaim.show.page_data import as_data
from outplace.repair.syntax import files
from outplace.repair.syntax.edits import unified_diff
from outplace.report import html
from outplace.report import json as json_report
from outplace.report.console import for_stream
from outplace.report.diff import print_diff
from outplace.report.progress import Progress


class Command:
    """One run of `outplace reclaim`."""

    def __init__(
        self,
        words: list[str],
        steps: int,
        limit: float,
        everything: bool,
        prove: bool,
        exact: bool,
        recompute: bool,
        fix: bool,
        diff: bool,
        json_path: str | None,
        html_path: str | None,
    ) -> None:
        self._trials = Trials(words, steps, limit, Progress().run, exact)
        self._reclaim = Reclaim(self._trials, everything, prove, recompute)
        self._fix, self._diff, self._json, self._html = fix, diff, json_path, html_path
        self.written = ""
        """The files that stay changed."""

    def run(self) -> int:
        """Runs the command. Exits with 0, or with the program's own exit code if the program fails."""
        try:
            outcome = self._reclaim.run()
            console = for_stream(sys.stderr)
            if outcome.trouble:
                console.print(Text(f"outplace: {outcome.trouble}"), soft_wrap=True)
                code = outcome.first.code
                return 128 - code if code < 0 else code or (0 if outcome.first.good else 1)
            table.render(outcome, console)
            if (self._fix or self._diff) and outcome.texts:
                self._change(outcome, console)
            self._report(outcome)
            return 0
        finally:
            self._trials.close()

    def _change(self, outcome: Outcome, console: Console) -> None:
        documents = {path: files.read(path) for path in outcome.texts}
        console.print()
        for path, text in outcome.texts.items():
            print_diff(unified_diff(under_cwd(path), documents[path].text, text), console)
        if not self._fix:
            return
        data = {path: documents[path].encode(text) for path, text in outcome.texts.items()}
        names = ", ".join(under_cwd(path) for path in outcome.texts)
        try:
            files.write_all(data, documents)
            holds = self._reclaim.holds_on_disk(outcome)
        except BaseException:
            _put_back(documents, data)
            raise
        if not holds:
            _put_back(documents, data)
            raise OutplaceError(f"what was proved did not hold once it was written; {names} put back as before", 1)
        self.written = names
        console.print(Text(f"Written: {names}; run again as written, it computes the same.", style="green"))

    def _report(self, outcome: Outcome) -> None:
        data = as_data(outcome)
        if self._json is not None:
            json_report.write_data(self._json, data)
        if self._html is not None:
            from outplace.reclaim.show.picture import section

            html.write(self._html, json_report.report((), data["torch"]), [section(outcome, data)])


def _put_back(documents: Mapping[str, files.Document], written: Mapping[str, bytes]) -> None:
    """Restores all files. A file that another program has changed since is left alone."""
    with _undisturbed():
        for path, document in documents.items():
            if files.read(path).data == written[path]:
                files.write(path, document.data)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignores Ctrl-C while files are being restored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
