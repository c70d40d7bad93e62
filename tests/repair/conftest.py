"""What the tests of repairs share: a repair of source by the analysis that `outplace fix` uses."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from outplace.repair.drive.from_source import Repaired, repair
from outplace.source.analysis import check_file
from outplace.source.project import Project


def repaired(source: str, **options: Any) -> Repaired:
    """The source as `outplace fix` leaves it."""

    def check(path: str, text: str) -> Any:
        return check_file(path, text, Project()).findings

    return repair("program.py", textwrap.dedent(source), check, lambda _: True, **options)


@pytest.fixture(autouse=True)
def _as_torch_was() -> Iterator[None]:
    """Programs that run in this process may choose another default dtype."""
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def fixed() -> Any:
    """Repairs a source and gives its new text."""
    return lambda source, **options: repaired(source, **options).text
