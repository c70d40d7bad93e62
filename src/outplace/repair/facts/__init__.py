"""What the source says about a tensor: who aliases it, where it comes from, what reads it."""
