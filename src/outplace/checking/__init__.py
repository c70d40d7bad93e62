"""Everything around the source analysis that makes it a checker: which files, which rules, noqa, baseline, cache."""
