"""The version of outplace, where everybody can read it without loading anything else."""

__version__ = "0.1.0"
