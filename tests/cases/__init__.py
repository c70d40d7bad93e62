"""Small programs with in-place bugs (or none), and what `outplace run` must say of each."""
