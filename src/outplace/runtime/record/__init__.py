"""The record of a running program: marks, writes, optimizer steps, backwards, and snapshots of memory."""
