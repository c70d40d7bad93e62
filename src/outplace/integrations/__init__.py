"""outplace where people work: notebooks, pytest, several ranks. None of these modules imports torch by itself."""
