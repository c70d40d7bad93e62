"""Finds memory that a training program does not need, and rewrites that free it."""
