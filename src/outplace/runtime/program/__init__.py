"""Starts and ends recording in a program: launch, sessions, ranks, child processes."""
