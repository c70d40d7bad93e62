"""What could use less memory, one module for each kind of saving."""
