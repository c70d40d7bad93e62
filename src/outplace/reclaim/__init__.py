"""In-place where it is safe and pays: what a program's memory was at its peak, and which of it was not needed."""
