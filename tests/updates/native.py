"""The C++ of `again`, compiled: where there is a compiler it has to be one that can."""

from __future__ import annotations

import functools
import shutil
import sys
from typing import Any

import pytest

from outplace.updates.kernels import again


@functools.cache
def module() -> Any:
    """The module, waited for; without a compiler whoever asks is skipped."""
    if shutil.which("c++") is None or sys.platform != "linux":
        pytest.skip("needs a C++ compiler, on Linux")
    compiled = again.native.wait(300)
    assert compiled is not None, "it cannot be compiled"
    return compiled
