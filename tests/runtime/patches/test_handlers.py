"""Whether a frame catches an exception and goes on is known before; each function is tried with a real exception."""

from __future__ import annotations

import contextlib
import sys

import pytest

from outplace.runtime.patches import handlers


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Swallowing(Quiet):
    def __exit__(self, kind, error, trace):
        return kind is ValueError


@contextlib.contextmanager
def cleaning():
    try:
        yield
    finally:
        sys.getrefcount(None)


@contextlib.contextmanager
def swallowing():
    with contextlib.suppress(ValueError):
        yield


def nothing(probe):
    probe()


def quiet(probe):
    with Quiet():
        probe()


def two_quiet(probe):
    with Quiet(), cleaning():
        probe()


def in_finally(probe):
    try:
        probe()
    finally:
        sys.getrefcount(None)


def raised_again(probe):
    try:
        probe()
    except ValueError:
        raise


def caught(probe):
    try:
        probe()
    except ValueError:
        return


def caught_around(probe):
    try:
        with Quiet():
            probe()
    except ValueError:
        pass


def suppressed(probe):
    with contextlib.suppress(ValueError):
        probe()


def swallowed(probe):
    with Swallowing():
        probe()


def swallowed_by_a_generator(probe):
    with swallowing():
        probe()


def swallowed_by_the_outer(probe):
    with Swallowing(), Quiet():
        probe()


def left_by_return(probe):
    try:
        probe()
    finally:
        return  # noqa: B012


def named(probe):
    manager = Swallowing()
    with manager:
        probe()


PROGRAMS = [nothing, quiet, two_quiet, in_finally, raised_again, caught, caught_around, suppressed, swallowed]
PROGRAMS += [swallowed_by_a_generator, swallowed_by_the_outer, left_by_return, named]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="without a table of handlers, everything may be caught")
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_catches_is_known(program):
    said = []
    program(lambda: said.append(handlers.catches(sys._getframe(1))))

    def fail():
        raise ValueError

    try:
        program(fail)
        went_on = True
    except ValueError:
        went_on = False
    assert said == [went_on]


def test_a_manager_that_is_not_known_may_suppress():
    said = []

    def held(manager):
        with manager:
            said.append(handlers.catches(sys._getframe()))

    held(Quiet())
    assert said == [True]
