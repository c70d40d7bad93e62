def damp(hidden, factor=0.5):
    hidden.mul_(factor)  # overwrites
