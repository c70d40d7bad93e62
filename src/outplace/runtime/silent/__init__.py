"""Finds wrong numbers that raise no error."""
