"""Turning a diagnosis into edits of the source. Never imports torch."""
