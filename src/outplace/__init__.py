"""outplace: from PyTorch's in-place error to the exact lines, and a patch that is proved to work."""

from outplace.runtime.attach import install, watch

__all__ = ["__version__", "install", "watch"]
__version__ = "0.1.0"
