"""Diagnoses in the forms people and tools read: one module a format. Nothing here imports torch."""
