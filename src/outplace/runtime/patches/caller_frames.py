"""Calls a function in the name of another frame. A warning takes its line from a frame, which must not be outplace's.

torch's warnings name the innermost Python frame; those with a `stacklevel` name a frame further out. Where a function
of outplace runs before one of torch's, the latter is called from a frame with the file, line and globals of the caller.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from outplace.runtime.record.user_files import OUTPLACE_FOLDER

_NAME = "<outplace>"


def call(frame: FrameType | None, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function as if the current line of `frame` called it. `frame` is None in a thread of torch."""
    if frame is None:
        return FunctionType(_code_at(*_NOWHERE), vars(sys))(function, args, kwargs)
    line = frame.f_lineno or frame.f_code.co_firstlineno  # some instructions belong to no line
    return FunctionType(_code_at(frame.f_code.co_filename, line), frame.f_globals)(function, args, kwargs)


def call_from_nowhere(function: Callable[..., Any], *args: Any) -> Any:
    """Calls the function as if there were no frame below it, like a program that Python starts."""
    below = FunctionType(_in_place_of(_deep, *_NOWHERE), vars(sys))
    return below(below, function, args, _DEPTH)


def is_caller_frame(code: CodeType) -> bool:
    """Does this code belong to a frame that was made by `call`?"""
    return code.co_name == _NAME


_NOWHERE = ("<sys>", 0) if sys.version_info >= (3, 13) else ("sys", 1)
"""The file that Python's warnings name if there is no frame."""

_DEPTH = 4
"""No warning looks further below the program than this."""

_flat = lambda function, args, kwargs: function(*args, **kwargs)  # noqa: E731
_deep = lambda itself, function, args, more: itself(itself, function, args, more - 1) if more else function(*args)  # noqa: E731


@functools.lru_cache(maxsize=1000)
def _code_at(filename: str, line: int) -> CodeType:
    return _in_place_of(_flat, filename, line)


def _in_place_of(function: Any, filename: str, line: int) -> CodeType:
    """The code of a one-line function that seems to be at this line of this file."""
    code: CodeType = function.__code__
    return code.replace(co_name=_NAME, co_filename=filename, co_firstlineno=line)


# -- frames of outplace in tracebacks ----------------------------------------------------------------------------------

_OWN_FOLDER = OUTPLACE_FOLDER + os.sep


def trim(error: BaseException) -> None:
    """Removes outplace's frames from the traceback."""
    first: TracebackType | None = error.__traceback__
    while first is not None and _is_ours(first):
        first = first.tb_next
    if first is not error.__traceback__:
        error.__traceback__ = first
    while first is not None:
        following = first.tb_next
        while following is not None and _is_ours(following):
            following = following.tb_next
        if following is not first.tb_next:
            first.tb_next = following
        first = following


def _is_ours(traceback: TracebackType) -> bool:
    frame = traceback.tb_frame
    if frame.f_code.co_name == "handle_torch_function":  # called by one of outplace's functions
        return frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(_OWN_FOLDER)
    if is_caller_frame(frame.f_code):
        return True
    # One function of outplace names the import system as its file (see `instrument.loading`): its module identifies it.
    return frame.f_code.co_filename.startswith(_OWN_FOLDER) or frame.f_globals.get("__name__") == _LOADING


_LOADING = "outplace.runtime.instrument.loading"
