"""Shows what was found: tables, pages."""
