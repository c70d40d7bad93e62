"""Runs the program and records its memory."""
