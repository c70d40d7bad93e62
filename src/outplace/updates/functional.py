"""placeholder."""


def functional(fn):
    return fn
