"""Reads and writes files: never half-written, clear errors for what cannot be read."""
