"""`outplace run --fix`: repairs a program that has failed, and proves the repair by running it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from outplace.cli.program import say_written
from outplace.errors import OutplaceError
from outplace.files.naming import signal_name, under_cwd
from outplace.files.writing import replace_text
from outplace.repair.drive import from_run
from outplace.repair.drive.processes import Stopped, until_signal
from outplace.repair.drive.runs import Runs
from outplace.repair.facts.bug import Intent, two_orders
from outplace.repair.facts.location import Style
from outplace.repair.syntax import files
from outplace.repair.syntax.edits import unified_diff
from outplace.report.progress import Progress


class Repairing:
    """One run of the command."""

    def __init__(
        self,
        words: list[str],
        json_path: str | None,
        html_path: str | None,
        write: bool,
        unsafe: bool,
        style: Style,
        intent: Intent | None,
        limit: float,
    ) -> None:
        if words[0] in ("-c", "-"):
            raise OutplaceError("--fix needs a program that is in a file")
        self._json_path, self._html_path, self._write = json_path, html_path, write
        self._runs = Runs(words, limit, Progress(limit=limit).run)
        self._repair = from_run.Repair(self._runs, style, unsafe, intent)
        self._left = "nothing was changed"
        """What was written, for the message after an interruption."""

    def run(self) -> int:
        """Runs the program, repairs it, reports, and returns the program's exit code."""
        with until_signal():
            return self._run()

    def _run(self) -> int:
        from outplace.report.console import for_stream

        try:
            outcome = self._repair.run()
            shown = outcome.first_output.read_bytes()
            console = for_stream(sys.stderr)
            if outcome.texts:
                self._changed(outcome, console)
            elif outcome.trouble:
                _say(console, f"Not repaired: {outcome.trouble}. Nothing was written.", "yellow")
            elif outcome.evidence.good:
                _say(console, "Nothing to repair.", "green")
            elif outcome.evidence.code < 0:
                _say(
                    console,
                    f"Nothing to repair: the program was ended by {signal_name(-outcome.evidence.code)}.",
                    "yellow",
                )
            if self._json_path is not None:
                replace_text(Path(self._json_path), self._runs.report().read_text("utf-8"))
            if self._html_path is not None:
                from outplace.report import html

                html.write(self._html_path, json.loads(self._runs.report().read_text("utf-8")))
            say_written(self._json_path, self._html_path)
            _pass_on(outcome.output, shown, console)
            return outcome.evidence.code if outcome.evidence.code >= 0 else 128 - outcome.evidence.code
        except KeyboardInterrupt:
            print(f"outplace: stopped; {self._left}", file=sys.stderr)
            return 130
        except Stopped:
            print(f"outplace: stopped; {self._left}", file=sys.stderr)
            raise
        finally:
            self._runs.close()

    def _changed(self, outcome: from_run.Outcome, console: Console) -> None:
        from outplace.report.diff import print_diff

        documents = {path: files.read(path) for path in outcome.texts}
        where = ", ".join(under_cwd(path) for path in outcome.texts)
        if self._write:
            files.write_all({path: documents[path].encode(text) for path, text in outcome.texts.items()}, documents)
            self._left = f"{where} was written"
        console.print()
        for path, text in outcome.texts.items():
            print_diff(unified_diff(under_cwd(path), documents[path].text, text), console)
        console.print()
        for proof in outcome.proofs:
            _say(console, proof.title, "bold")
            _say(console, f"  loss: {proof.loss}")
            _say(console, f"  gradients: {proof.gradient}")
        ran = "the program runs to its end" if not outcome.evidence.stopped else "the program was still running well"
        summary = f"Repaired {where}" if self._write else f"Would repair {where}; nothing was written"
        _say(console, f"{summary}: no in-place error is left, and {ran}.", "green")
        for proof in outcome.proofs:
            if proof.intent is not None:
                _say(console, two_orders(proof.intent), "yellow")
        if outcome.left:
            _say(console, f"Not repaired: {outcome.left}.", "yellow")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _pass_on(output: Path, shown: bytes, console: Console) -> None:
    """Prints what the repaired program prints and what was not yet shown."""
    text = output.read_bytes()
    rest = text[len(shown) :] if text.startswith(shown) else _from_the_first_other_line(text, shown)
    if rest:
        _say(console, "The repaired program goes on to print:", "dim")
        sys.stderr.flush()
        sys.stdout.buffer.write(rest)
        sys.stdout.buffer.flush()


def _from_the_first_other_line(text: bytes, shown: bytes) -> bytes:
    lines, old = text.splitlines(keepends=True), shown.splitlines(keepends=True)
    same = next((nth for nth, pair in enumerate(zip(lines, old, strict=False)) if pair[0] != pair[1]), len(lines))
    return b"".join(lines[same:])
