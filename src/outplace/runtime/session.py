"""One run of `outplace run` with its child processes: where diagnoses are gathered, and the report that is left behind."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from typing import Any

from outplace.report import json as json_report
from outplace.runtime import diagnose

FOLDER = "OUTPLACE_SESSION"
"""Environment variable: the folder where the processes of a session leave their reports for the one that started it."""


def _torch_version() -> str | None:
    torch = sys.modules.get("torch")
    return getattr(torch, "__version__", None)


class Session:
    """The process that `outplace run` started; keeps the JSON report true at every moment."""

    def __init__(self, json_path: str | None) -> None:
        self._json_path = json_path
        self._pid = os.getpid()
        self.folder = tempfile.mkdtemp(prefix="outplace-")
        os.environ[FOLDER] = self.folder
        os.environ["OUTPLACE"] = "1"
        self.update()
        diagnose.listeners.append(self._on_diagnosis)
        os.register_at_fork(after_in_child=start_in_child)

    def _on_diagnosis(self) -> None:
        if os.getpid() == self._pid:
            self.update()

    def update(self) -> None:
        """Writes the report as it stands now."""
        if self._json_path is not None:
            json_report.write_data(self._json_path, self.report())

    def report(self) -> dict[str, Any]:
        """The diagnoses of this process and of its children, each bug once."""
        report = json_report.report(diagnose.found, _torch_version())
        known = [_essence(entry) for entry in report["diagnoses"]]
        for child in self.children():
            report["torch"] = report["torch"] or child.get("torch")
            for entry in child.get("diagnoses", ()):
                if _essence(entry) not in known:
                    known.append(_essence(entry))
                    report["diagnoses"].append(entry)
        return report

    def children(self) -> list[dict[str, Any]]:
        """The reports that child processes left."""
        found = []
        for name in sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []:
            try:
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    found.append(json.load(file))
            except (OSError, ValueError):  # a child that was killed while it wrote: its temporary file
                continue
        return found

    def close(self) -> None:
        """Writes the last report and clears up."""
        self.update()
        shutil.rmtree(self.folder, ignore_errors=True)


def _essence(entry: dict[str, Any]) -> tuple[Any, ...]:
    lines = tuple((m["site"]["file"], m["site"]["line"]) for m in entry["mutations"] if m["site"])
    raised = entry["raised_at"]
    return entry["kind"], lines, (raised["file"], raised["line"]) if raised else None


def start_in_child() -> None:
    """In a forked or spawned child: diagnoses go to a report of its own in the session's folder."""
    folder = os.environ.get(FOLDER)
    diagnose.found.clear()
    diagnose.listeners.clear()
    if folder is None or not os.path.isdir(folder):
        return
    path = os.path.join(folder, f"{os.getpid()}.json")
    diagnose.listeners.append(lambda: json_report.write(path, diagnose.found, _torch_version()))
