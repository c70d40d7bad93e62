"""Diagnoses the errors that PyTorch raises."""
