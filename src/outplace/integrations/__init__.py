"""outplace in notebooks, in pytest and in child processes. None of these modules imports torch by itself."""
