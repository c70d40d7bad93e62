"""Shows the results: tables and pages."""
