"""From a bug to its candidates."""
