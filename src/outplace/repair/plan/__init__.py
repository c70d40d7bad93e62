"""From a bug to a choice of edits."""
