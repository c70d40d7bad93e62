"""Source text: syntax trees, edits, files, patches."""
