"""The interface to reports. The caller that starts recording passes a `Reporter`, so nothing here imports one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from outplace.model import Diagnosis

Form = Literal["json", "html"]


class Reporter(Protocol):
    """Turns diagnoses into text and files. A module with these functions also fits (`outplace.report.reporter`)."""

    def note(self, diagnoses: Sequence[Diagnosis]) -> str:
        """The note that an exception carries."""

    def show(self, diagnoses: Sequence[Diagnosis], survived: bool) -> None:
        """Prints diagnoses: below their traceback or, if the program survived them, at its end."""

    def data(self, diagnoses: Sequence[Diagnosis], torch_version: str | None) -> dict[str, Any]:
        """A report as plain data."""

    def write(self, path: str, form: Form, data: Mapping[str, Any]) -> None:
        """Writes a report to a file, completely or not at all."""
