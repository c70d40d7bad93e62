"""What PyTorch does: its in-place errors and its operations. Read by all, reads nobody, never imports torch."""
