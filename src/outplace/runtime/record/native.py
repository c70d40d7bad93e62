"""The compiled part, `_native.c`: None where it was not compiled, or where OUTPLACE_PURE_PYTHON asks to do without."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

compiled: ModuleType | None = None
if not os.environ.get("OUTPLACE_PURE_PYTHON"):
    try:
        from outplace.runtime.record import _native as compiled
    except ImportError:  # installed from source on a machine without a C compiler
        compiled = None
