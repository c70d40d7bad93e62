"""Attaches outplace to this process: when torch comes, where errors surface, in children and threads.

torch is never imported here. If the program has not imported it yet, the hooks are put in place right after it does.
"""

from __future__ import annotations

import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType, TracebackType
from typing import Any, Literal, ParamSpec, TypeVar

from outplace.model import Diagnosis
from outplace.runtime import diagnose, instrument, record
from outplace.runtime.usercode import own_files

Way = Literal["marks", "tags"]
"""How the places of nodes are known: marks in the source (nearly free), or a tag on each node (for code already loaded)."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_way: Way | None = None


def attach(way: Way) -> None:
    """Starts recording in this process."""
    global _way
    if _way is None:
        _watch_errors()
    _way = way if _way is None else _way
    if way == "marks":
        instrument.publish()
        instrument.install_finder()
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "Tensor"):
        _connect()
        if way == "tags":
            from outplace.runtime import tags

            tags.install()
    elif _TorchComes not in [type(finder) for finder in sys.meta_path]:
        sys.meta_path.insert(0, _TorchComes())


def detach() -> None:
    """Stops recording and puts torch back as it was."""
    global _way
    _way = None
    instrument.remove_finder()
    _unwatch_errors()
    if "torch" in sys.modules:
        from outplace.runtime import engine, tags, writes

        tags.uninstall()
        writes.uninstall()
        engine.uninstall()


def attached() -> bool:
    """Is outplace recording in this process?"""
    return _way is not None


def attach_to_process() -> None:
    """What the .pth file calls when OUTPLACE is set: a child process, whose main script is not ours to compile."""
    from outplace.runtime import session

    attach("tags")
    session.start_in_child()


# -- torch --------------------------------------------------------------------------------------------------------------


class _TorchComes(importlib.abc.MetaPathFinder):
    """Waits for `import torch` and then connects; takes itself away."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenConnect(spec.loader)
        return spec


class _ThenConnect(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _connect()
        if _way == "tags":
            from outplace.runtime import tags

            tags.install()


def _connect() -> None:
    """Puts the hooks into torch."""
    import torch

    from outplace.runtime import engine, writes

    own_files.know_torch(torch.__path__[0])
    record.connect(torch._C._autograd._get_sequence_nr, torch.compiler.is_dynamo_compiling, _graph_on_other_thread)
    writes.install()
    engine.install(_backward_failed)
    setattr(builtins, instrument.OUT, writes.note_out)
    setattr(builtins, instrument.LEAF, writes.note_leaf)
    setattr(builtins, instrument.CAUGHT, _caught)


def _graph_on_other_thread() -> None:
    """A second thread builds a graph: from now on each node is tagged, since numbers no longer tell threads apart."""
    import torch

    from outplace.runtime import tags

    if torch._C._current_autograd_node() is None:  # not a checkpoint's recomputation, which stays inside its backward
        tags.install()


def _backward_failed(frame: FrameType) -> None:
    error = sys.exc_info()[1]
    if error is not None:
        diagnose.examine(error, frame)


def _caught() -> None:
    """The program caught an exception itself (called at the beginning of each handler in marked code)."""
    error = sys.exc_info()[1]
    if isinstance(error, RuntimeError | NotImplementedError | TypeError | ValueError):
        diagnose.examine(error)


# -- where errors surface -----------------------------------------------------------------------------------------------

_undo: list[Callable[[], None]] = []


def _watch_errors() -> None:
    """Examines exceptions wherever Python shows them: uncaught, in threads, or formatted by a logger or a worker."""
    old_init = traceback.TracebackException.__init__
    old_thread_hook, old_hook = threading.excepthook, sys.excepthook

    @functools.wraps(old_init)
    def formatting(self: Any, exc_type: Any, exc_value: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(exc_value, BaseException):
            trimmed = exc_value.__traceback__
            diagnose.examine(exc_value)
            diagnose.trim(exc_value)
            if args and args[0] is trimmed:  # the caller passed the traceback as it was before
                args = (exc_value.__traceback__, *args[1:])
        old_init(self, exc_type, exc_value, *args, **kwargs)

    def in_thread(details: threading.ExceptHookArgs) -> None:
        if details.exc_value is not None:
            diagnose.examine(details.exc_value)
        old_thread_hook(details)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        diagnose.examine(error)
        diagnose.trim(error)
        old_hook(kind, error, error.__traceback__)

    traceback.TracebackException.__init__ = formatting  # type: ignore[method-assign]
    threading.excepthook = in_thread
    sys.excepthook = uncaught
    _undo.append(lambda: setattr(traceback.TracebackException, "__init__", old_init))
    _undo.append(lambda: setattr(threading, "excepthook", old_thread_hook))
    _undo.append(lambda: setattr(sys, "excepthook", old_hook) if sys.excepthook is uncaught else None)


def _unwatch_errors() -> None:
    while _undo:
        _undo.pop()()


# -- the library ----------------------------------------------------------------------------------------------------------


class watch:  # noqa: N801
    """Watches a block or a function, in a program that was started without `outplace run`.

    Use it as `with outplace.watch():` or `@outplace.watch`. An in-place error that leaves the block carries its
    diagnosis as a note and in its attribute `outplace_diagnoses`.
    """

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self._function = function
        self._first = 0
        self._owner = False
        if function is not None:
            functools.update_wrapper(self, function)

    def __enter__(self) -> watch:
        """Starts recording."""
        self._owner = not attached()
        self._first = len(diagnose.found)
        attach("tags")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Diagnoses what leaves the block, and stops recording if this block started it."""
        if error is not None:
            diagnose.examine(error)
        if self._owner:
            detach()

    @property
    def diagnoses(self) -> list[Diagnosis]:
        """What was found since the block began."""
        return diagnose.found[self._first :]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the decorated function under watch."""
        if self._function is None:
            if len(args) == 1 and callable(args[0]) and not kwargs:  # @outplace.watch()
                return type(self)(args[0])
            raise TypeError("outplace.watch() is a context manager or a decorator; it was called as neither")
        with self:
            return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Makes the decorator work on methods."""
        return self if instance is None else functools.partial(self, instance)


def install() -> None:
    """Starts recording for the rest of the program; in-place errors then carry their diagnoses."""
    attach("tags")
