"""Repairs whole programs: from source alone, or from the evidence of a run."""
