"""Python's own warnings about source that outplace reads, turned off."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quietly(action: str = "ignore") -> Iterator[None]:
    """For source that is not the user's question now: the compiler's warnings are not shown, or are errors (`"error"`).

    The filters are exchanged without telling Python. Otherwise it would forget which warnings it has shown once.
    """
    filters = warnings.filters
    warnings.filters = [(action, None, Warning, None, 0)]
    try:
        yield
    finally:
        warnings.filters = filters
