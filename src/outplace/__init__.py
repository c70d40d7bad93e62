"""outplace: from PyTorch's in-place error to the exact lines, and a patch that is proved to work."""

__version__ = "0.1.0"
