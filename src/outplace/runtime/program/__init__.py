"""Starts and ends the recording of a program: launch, sessions, ranks, child processes."""
