"""Everything that outplace replaces in torch or in Python."""
