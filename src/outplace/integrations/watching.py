"""`outplace.watch` and `outplace.install`: recording in a program that was started without `outplace run`."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from outplace.model import Diagnosis
from outplace.report import reporter
from outplace.runtime.errors import dispatch
from outplace.runtime.program import lifecycle

_P = ParamSpec("_P")
_R = TypeVar("_R")

_watchers = 0
_started_by_watch = False


class Watch:
    """A watched block: `with outplace.watch() as watched:`. `watched.diagnoses` has its diagnoses."""

    def __init__(self, guard: bool = False, strict: bool = False) -> None:
        self.diagnoses: list[Diagnosis] = []
        self._asked_for = guard, strict
        self._first = False

    def __enter__(self) -> Watch:
        """Starts recording."""
        global _watchers, _started_by_watch
        with lifecycle.lock:
            _watchers += 1
            if not lifecycle.attached():
                lifecycle.attach("tags", reporter, block=sys._getframe(1))
                self._first = _started_by_watch = True
            lifecycle.count_callers(*self._asked_for)
            dispatch.collectors.append(self.diagnoses)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Diagnoses the error that leaves the block. The last block stops recording, if a block started it."""
        global _watchers, _started_by_watch
        if error is not None:
            dispatch.examine(error)
        with lifecycle.lock:
            lifecycle.count_callers(*self._asked_for, times=-1)
            dispatch.collectors[:] = [collector for collector in dispatch.collectors if collector is not self.diagnoses]
            _watchers -= 1
            if _watchers == 0 and _started_by_watch:
                _started_by_watch = False
                lifecycle.detach()
            elif self._first and _started_by_watch:
                lifecycle.continue_after_block()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorates a function: `@outplace.watch()`."""
        return _watched(function, *self._asked_for)


def _watched(function: Callable[_P, _R], guard: bool, strict: bool) -> Callable[_P, _R]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def watched(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            with Watch(guard, strict):
                return await function(*args, **kwargs)

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def watched(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            with Watch(guard, strict):
                return (yield from function(*args, **kwargs))

    else:

        @functools.wraps(function)
        def watched(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            with Watch(guard, strict):
                return function(*args, **kwargs)

    return watched  # type: ignore[return-value]


@overload
def watch(*, guard: bool = False, strict: bool = False) -> Watch: ...
@overload
def watch(function: Callable[_P, _R], *, guard: bool = False, strict: bool = False) -> Callable[_P, _R]: ...
def watch(function: Any = None, *, guard: bool = False, strict: bool = False) -> Any:
    """Watches a block or a function, in a program that was started without `outplace run`.

    Use it as `with outplace.watch():` or `@outplace.watch`. An in-place error that leaves the block carries its
    diagnosis as a note and in its attribute `outplace_diagnoses`. Wrong gradients that PyTorch never reports are in the
    block's `diagnoses`, or with `strict` raised as `outplace.WrongGradientError`. `guard` compares the contents of
    every saved tensor. That finds writes that Python cannot observe, and costs time (docs/silent.md).
    """
    if function is None:
        return Watch(guard, strict)
    if not callable(function):
        raise TypeError(f"outplace.watch takes a function, or nothing; not {type(function).__name__!r}")
    return _watched(function, guard, strict)


def install(*, guard: bool = False, strict: bool = False) -> None:
    """Starts recording for the rest of the program. In-place errors then carry their diagnoses.

    The options are those of `watch`.
    """
    global _started_by_watch
    with lifecycle.lock:
        if lifecycle.attached():
            lifecycle.continue_after_block()
        else:
            lifecycle.attach("tags", reporter)
        lifecycle.count_callers(guard, strict)
        _started_by_watch = False
