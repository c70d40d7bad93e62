"""One module for each silent bug."""
