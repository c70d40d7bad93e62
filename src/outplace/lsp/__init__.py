"""The language server: what `outplace check` finds and `outplace fix` repairs, in an editor, while one types."""
