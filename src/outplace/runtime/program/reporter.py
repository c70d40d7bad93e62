"""What the record needs of reports. Whoever starts recording hands in a `Reporter`, so nothing here imports one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from outplace.model import Diagnosis

Form = Literal["json", "html"]


class Reporter(Protocol):
    """Turns diagnoses into text and files. A module with these functions is one, too (`outplace.report.reporter`)."""

    def note(self, diagnoses: Sequence[Diagnosis]) -> str:
        """The note that an exception carries."""

    def show(self, diagnoses: Sequence[Diagnosis], survived: bool) -> None:
        """Prints diagnoses: below the traceback that they belong to, or at the end those that the program survived."""

    def data(self, diagnoses: Sequence[Diagnosis], torch_version: str | None) -> dict[str, Any]:
        """A report as plain data."""

    def write(self, path: str, form: Form, data: Mapping[str, Any]) -> None:
        """Writes a report to a file, whole or not at all."""
