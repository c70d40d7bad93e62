"""What PyTorch does: its in-place errors and its operations. Imports no other package of outplace, and no torch."""
