"""The process that runs the programs, one for each test worker."""

from __future__ import annotations

import pytest

from forks import Run, Zygote, shared

__all__ = ["Run", "Zygote"]


@pytest.fixture(scope="session")
def zygote() -> Zygote:
    return shared()
