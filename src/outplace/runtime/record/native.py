"""The compiled module `_native.c`; None if it was not compiled or if OUTPLACE_PURE_PYTHON is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outplace import settings

if TYPE_CHECKING:
    from types import ModuleType

compiled: ModuleType | None = None
if not settings.PURE_PYTHON.read():
    try:
        from outplace.runtime.record import _native as compiled
    except ImportError:  # installed from source on a machine without a C compiler
        compiled = None
