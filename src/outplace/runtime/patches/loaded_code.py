"""Gives marks to functions that were loaded without them, for as long as outplace is attached.

Each function of the user's files gets the code of its marked twin (`instrument.twins`), and its own code back at the
end. Frames that are running keep their code. When such a frame runs itself, each node gets a tag; when it has called
marked code, tags are off (`anomaly_tags.switched`). Functions that a running frame makes later get marks, too: their
code is a constant of the frame's code, and the twin takes its place.

All objects are looked through at the first entry, and later only now and then. A function that was made in between may
be missed: its nodes then get the line of its caller.

If code of the user stays without marks in a place that no mark can see, nothing is changed, and each node gets
a tag: a function whose file has changed, a generator that is suspended,
another thread inside the user's code, a program that compiles (Dynamo must see the functions that it has compiled).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import operator
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from outplace.runtime.instrument import twins
from outplace.runtime.patches import handlers
from outplace.runtime.patches.table import Patch, Undo
from outplace.runtime.record import log, native
from outplace.runtime.record.user_files import own_files

unmarked: tuple[CodeType, ...] | None = None
"""The code of the running frames that have no marks. None: there may be more code without marks."""

why_tags = ""
"""Why that is so."""

within: FrameType | None = None
"""The frame of the `with` block that is watched: the frames around it do not run again before the end."""


class _NotAllError(Exception):
    """Some code of the user would stay without marks. The message says which."""


def patches() -> Iterator[Patch]:
    """The patch that gives marks to loaded functions."""
    why = "Functions of the program's own files that are loaded already get marks."
    yield Patch("the functions of loaded modules", "code injected", why, _put)


def _put() -> Undo:
    global unmarked, why_tags
    undone: list[Undo] = []
    try:
        unmarked = _mark_all(undone)
    except _NotAllError as reason:
        unmarked, why_tags = None, str(reason)

    def undo() -> None:
        global unmarked, within
        unmarked = within = None
        while undone:  # what has been undone holds no marked code any more
            undone.pop()()

    return undo


def _mark_all(undone: list[Undo]) -> tuple[CodeType, ...]:
    if not hasattr(native.compiled, "switch_tags") or _hides_functions():
        raise _NotAllError("marks that can switch tags are compiled, and functions are found by the garbage collector")
    if dynamo_in_use():
        raise _NotAllError("Dynamo knows functions by their code")
    frames = _running_frames()
    functions = _loaded_functions()
    pairs = [(function, _twin(function.__code__)) for function in functions]
    constants = [
        (code, index, _twin(item))
        for code in frames
        for index, item in enumerate(code.co_consts)
        if isinstance(item, CodeType)
    ]
    undone += [_swap(function, twin) for function, twin in pairs if function.__code__ is not twin]
    undone += [_put_constant(*entry) for entry in constants]
    return tuple(frames)


def _twin(code: CodeType) -> CodeType:
    twin = twins.twin_of(code)
    if twin is None:
        raise _NotAllError(f"{code} is not what its file has now")
    return twin


def _swap(function: FunctionType, twin: CodeType) -> Undo:
    own, function.__code__ = function.__code__, twin
    reference = weakref.ref(function)

    def undo() -> None:
        found = reference()
        if found is not None and found.__code__ is twin:
            found.__code__ = own

    return undo


def _put_constant(code: CodeType, index: int, twin: CodeType) -> Undo:
    own: CodeType = code.co_consts[index]
    compiled: Any = native.compiled
    compiled.put_constant(code, index, twin)
    return lambda: compiled.put_constant(code, index, own)


def dynamo_in_use() -> bool:
    """Has the program asked for a compilation?"""
    if log.is_traced is not bool:
        return True
    backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
    return any(backend is not None and backend is not False for backend in backends.values())


# -- what is loaded ---------------------------------------------------------------------------------------------------

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def _running_frames() -> list[CodeType]:
    """The code of the user's frames without marks, out to the watched block. No other thread may have such a frame."""
    found: list[CodeType] = []
    for thread, innermost in sys._current_frames().items():
        mine = thread == threading.get_ident()
        frame: FrameType | None = innermost
        while frame is not None:
            if own_files[frame.f_code.co_filename] and not twins.is_marked(frame.f_code):
                if not mine:
                    raise _NotAllError("another thread is inside the user's code")
                found.append(frame.f_code)
            frame = None if mine and frame is within else frame.f_back
    return found


_functions: list[weakref.ref[FunctionType]] = []
_collections: list[int] = []
_due = 0.0


def _loaded_functions() -> list[FunctionType]:
    """The functions of the user's files. No generator of them may be suspended.

    Looking at every object takes time. A function that is watched at each call attaches each time; then only new
    objects are looked at, and all of them now and then.
    """
    global _due
    before, now = _collections[:], [stats["collections"] for stats in gc.get_stats()][1:]
    if _functions and (before == now or time.monotonic() < _due):
        old = [function for reference in _functions if (function := reference()) is not None]
        young = _own(gc.get_objects(0)) + _own(gc.get_objects(1))
        found = list({id(item): item for item in (*old, *young)}.values())
    else:
        start = time.monotonic()
        found = _own(gc.get_objects())
        _collections[:] = now
        _due = start + 50 * (time.monotonic() - start)
    functions = [item for item in found if isinstance(item, FunctionType)]
    _functions[:] = map(weakref.ref, functions)
    going_on = [weakref.ref(item) for item in found if not isinstance(item, FunctionType) and _goes_on(item)]
    del found
    if going_on and not all(map(_resumed_by_running_frame, going_on)):
        raise _NotAllError("a generator goes on without marks")
    return functions


_hidden = 0
"""So many objects are hidden from the garbage collector, and no function is among them."""


def _hides_functions() -> bool:
    """Has the program called `gc.freeze()`? Python 3.12 itself hides some objects when it starts, but no functions."""
    global _hidden
    count = gc.get_freeze_count()
    if count != _hidden and any(item is os.makedirs for item in gc.get_objects()):  # it is older than the program
        _hidden = count
    return count != _hidden


def look_at_all() -> None:
    """The next time, all objects are looked at."""
    _functions.clear()


def _own(objects: list[Any]) -> list[Any]:
    compiled: Any = native.compiled
    found: list[Any] = compiled.own_functions(objects)
    return found


def _goes_on(generator: Any) -> bool:
    """Will it go on without marks? One that runs outside the watched block does not, before the end."""
    for prefix in ("gi", "cr", "ag"):
        if hasattr(generator, f"{prefix}_code"):
            frame = getattr(generator, f"{prefix}_frame")
            outside = getattr(generator, f"{prefix}_running") and within is not None
            return not (frame is None or outside or twins.is_marked(getattr(generator, f"{prefix}_code")))
    return False


def _resumed_by_running_frame(reference: weakref.ref[Any]) -> bool:
    """Does only a running frame resume this generator: in a `for` loop, or in a `with` block that it is behind?

    The frame has no marks either. So nodes get tags then, also those that the generator makes.
    """
    generator = reference()
    if not inspect.isgenerator(generator):
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        own = own_files[frame.f_code.co_filename]
        if own and any(map(functools.partial(operator.is_, generator), frame.f_locals.values())):
            return False  # by its name, it can be given to marked code
        frame = frame.f_back
    return all(map(_is_behind_block, gc.get_referrers(generator)))


def _is_behind_block(holder: Any) -> bool:
    attributes = vars(holder) if isinstance(holder, _Manager) else holder
    return isinstance(attributes, dict) and {"gen"} <= attributes.keys() <= {"gen", "func", "args", "kwds", "__doc__"}


_Manager: Any = contextlib._GeneratorContextManagerBase


# -- exceptions -------------------------------------------------------------------------------------------------------


def may_go_on(frame: FrameType | None) -> bool:
    """Could a frame without marks catch what marked code raises, and go on? No mark would see that."""
    without: Any = unmarked or ()
    while frame is not None:
        own = any(frame.f_code is code for code in without)
        if own and handlers.catches(frame, _end_of_block if frame is within else None):
            return True
        if frame is within:
            return False
        frame = frame.f_back
    return False


_end_of_block: int | None = None
"""Where the watched frame goes on if an exception leaves the block."""


def watch(frame: FrameType) -> None:
    """This frame calls `__enter__`. If it does so for a `with` statement, it is the watched block."""
    global within, _end_of_block
    if not frame.f_code.co_flags & _GENERATORS:
        _end_of_block = handlers.block_at(frame.f_code, frame.f_lasti)
        within = frame if _end_of_block is not None else None
