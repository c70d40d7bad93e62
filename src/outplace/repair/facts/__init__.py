"""What the source says about a tensor: its aliases, where it comes from, what reads it."""
