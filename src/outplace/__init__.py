"""outplace: from PyTorch's in-place error to the exact lines, and a patch that is proved to work.

PYTEST_DONT_REWRITE: with OUTPLACE=1 it is loaded before pytest, which would warn that it comes too late for us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outplace.version import __version__

if TYPE_CHECKING:
    from outplace.integrations.watching import install, watch
    from outplace.reclaim.recompute import recompute
    from outplace.runtime.silent.reporting import WrongGradientError
    from outplace.updates import at, blend, functional, to_mask

__all__ = ["WrongGradientError", "__version__", "at", "blend", "functional", "install", "recompute", "to_mask", "watch"]


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext outplace` calls."""
    from outplace.integrations import ipython

    ipython.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext outplace` calls."""
    from outplace.integrations import ipython

    ipython.unload(shell)


def __getattr__(name: str) -> Any:
    """Loads the runtime when it is first asked for: the commands that read source have no use for it."""
    if name in ("install", "watch"):
        from outplace.integrations import watching

        return getattr(watching, name)
    if name == "WrongGradientError":
        from outplace.runtime.silent import reporting

        return reporting.WrongGradientError
    if name in ("at", "blend", "functional", "to_mask"):
        from outplace import updates

        return getattr(updates, name)
    if name == "recompute":
        from outplace.reclaim.recompute import recompute

        return recompute
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
