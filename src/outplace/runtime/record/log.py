"""The record: which statement made which autograd nodes, and which line wrote which storage.

Autograd numbers the nodes of a thread in the order in which they are made. A *mark* before each statement of the user's
code records the next number, so bisection finds the statement that made a node. A mark costs a fraction of a
microsecond (it is compiled, see `_native.c`); library code has none. A *write* is recorded when an in-place operation
is called: the storage, the version before it, and the frames from the operation out to the user's line. The record
keeps no tensor alive, and both lists are bounded.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple

from outplace.runtime.record import native, node_threads
from outplace.runtime.record.user_files import own_files

MARKS_KEPT = 200_000
WRITES_KEPT = 50_000
STEPS_KEPT = 1_000

Instruction = tuple[CodeType, int]
"""An instruction in running code: the code object and the offset of the instruction (`f_lasti`)."""

Place = int | Instruction | None
"""Where nodes were made: a statement (its number in `instrument.STATEMENTS`), an instruction, or None (a library)."""


WHOLE = ()
"""The index of a write to the whole tensor."""

SENT = "DDP sends its buffers"
"""The operation of a write that DDP makes at the start of its forward."""


class Region(NamedTuple):
    """The region of a storage that a write covered: a tensor's geometry and the index into it."""

    key: tuple[Any, ...]
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class Write(NamedTuple):
    """One in-place operation that was called. `frames` run from the innermost frame out to the user's frame."""

    storage: int
    before: int | None
    moment: int
    operation: str
    frames: tuple[Instruction, ...]
    region: Region | None
    grad_enabled: bool
    call: Any = None
    """The `OperatorCall` that it is part of."""


class Step(NamedTuple):
    """One optimizer step: the versions of its parameters before and after it, packed (8 bytes each)."""

    moment: int
    operation: str
    frames: tuple[Instruction, ...]
    parameters: Sequence[Callable[[], Any]]
    before: bytes
    after: bytes

    def versions(self) -> Iterable[tuple[Callable[[], Any], int, int]]:
        """Each parameter with its versions before and after the step."""
        before, after = memoryview(self.before).cast("Q"), memoryview(self.after).cast("Q")
        return zip(self.parameters, before, after, strict=True)


class Backward(NamedTuple):
    """One backward pass that was started."""

    moment: int
    frames: tuple[Instruction, ...]


class ThreadRecord:
    """The record of one thread. The `moment` of an entry is the thread's next node number when the entry was made."""

    def __init__(self) -> None:
        self.starts: list[int] = [-1]
        self.places: list[Place] = [None]
        self.writes: list[Write] = []
        self.steps: list[Step] = []
        self.backwards: list[Backward] = []
        self._by_storage: tuple[Any, dict[int, list[Write]]] = (None, {})
        self.forgotten = -1
        """Nodes with a number below this were made before the oldest remaining mark."""
        self.ident = _get_ident()

    def place_of(self, number: int) -> Place:
        """Where the node with this number was made; None if no code of the user made it, or if the mark is gone."""
        if number < self.forgotten:
            return None
        return self.places[bisect_right(self.starts, number) - 1]

    def writes_to(self, storage: int | None) -> list[Write]:
        """The writes to this storage, in order. A report asks for those of thousands of storages."""
        state = (len(self.writes), id(self.writes[-1]) if self.writes else None)
        if self._by_storage[0] != state:
            found: dict[int, list[Write]] = {}
            for write in self.writes:
                found.setdefault(write.storage, []).append(write)
            self._by_storage = (state, found)
        return self._by_storage[1].get(storage, []) if storage is not None else []

    def forget_old_marks(self) -> None:
        """Drops the older half of the marks."""
        half = len(self.starts) // 2
        del self.starts[:half]
        del self.places[:half]
        self.forgotten = self.starts[0]


class State(threading.local):
    """State that is read and set at every step and every backward, here and in `_native.c`."""

    steps = 0
    """How many steps of library optimizers this thread runs, nested. All writes of a step are recorded as one step."""
    stepping = 0
    """Does this thread run a step without a closure, so that no code of the user runs inside it?"""

    _backwards: ClassVar = [0]

    @property
    def backwards(self) -> int:
        """How many backward passes have begun, in all threads."""
        return self._backwards[0]

    @backwards.setter
    def backwards(self, number: int) -> None:
        self._backwards[0] = number


state: Any = State() if native.compiled is None else native.compiled.state

_get_ident = threading.get_ident
_main_thread = threading.main_thread().ident
_main = ThreadRecord()

_others: dict[int, ThreadRecord] = {}
"""The records of the other threads, by torch's number of the thread. Python gives an identity to several in turn."""

_marked: dict[int, tuple[list[int], list[Place], list[Step], list[Backward]]] = {}
"""Of the other threads whose nodes can be told apart: what compiled hooks append to."""

_main_number: int | None = None

# Bound by `connect`. Before torch is imported there are no nodes, and nothing is called.
_next_number: Callable[[], int] = int  # `int()` returns 0
_on_other_thread: Callable[[], None] = lambda: None  # noqa: E731

is_traced: Callable[[], bool] = bool
"""Is this call traced, by Dynamo or TorchScript? Until the first trace this is `bool`: cheap, and it returns False."""


def current() -> ThreadRecord:
    """The record of the calling thread."""
    if _get_ident() == _main_thread:
        return _main
    number = _thread_number()
    record = _others.get(number)
    if record is None:
        record = _others[number] = ThreadRecord()
        if len(_others) > 256:  # threads come and go (DataParallel starts new ones at every forward)
            alive = {thread.ident for thread in threading.enumerate()}
            newest = {other.ident: key for key, other in _others.items()}
            kept = {key for ident, key in newest.items() if ident in alive}
            for key in _others.keys() - kept:
                del _others[key]
                _marked.pop(key, None)
    return record


def _thread_number() -> int:
    ask = node_threads.number_of_thread() if _next_number is not int else None
    return _get_ident() if ask is None else ask()


def record_of(node: Any) -> ThreadRecord | None:
    """The record of the thread that made this node; None if it has none, or if the thread is not known."""
    _know_main_thread()
    thread = node_threads.thread_of(node)
    return _main if thread is not None and thread == _main_number else _others.get(thread or 0)


def _know_main_thread() -> None:
    global _main_number
    if _get_ident() == _main_thread:
        _main_number = _thread_number()


def all_threads() -> list[ThreadRecord]:
    """The records of all threads, the calling thread's first."""
    mine = current()
    return [mine, *(record for record in (_main, *_others.values()) if record is not mine)]


def know_no_place(thread: int) -> None:
    """This thread waits in code without marks. Nodes that it makes next without a mark have no place."""
    for record in (_main, *_others.values()):
        if record.ident == thread:
            record.places[-1] = None


def reset() -> None:
    """Drops the whole record. A forked child keeps the parent's graphs; tests need an empty record."""
    _main.__init__()  # type: ignore[misc]
    _others.clear()
    connect(_next_number, _on_other_thread)


# -- functions that marked code calls -------------------------------------------------------------------------------


def mark(statement: int) -> None:
    """A statement of the user's code begins."""
    _note(_next_number(), statement)


def back(value: Any = None, _mark: None = None) -> Any:
    """A function of the user's code returns or yields. The nodes that follow belong to the caller's line again."""
    back_from(sys._getframe(1))
    return value


def back_from(function: FrameType) -> None:
    """Like `back`, called from this frame."""
    frame = function.f_back
    while frame is not None and not own_files[frame.f_code.co_filename]:
        frame = frame.f_back
    _note(_next_number(), None if frame is None else (frame.f_code, frame.f_lasti))


def at(value: Any, statement: int) -> Any:
    """A mark inside a statement: after `value` was computed and before it is used."""
    _note(_next_number(), statement)
    return value


def _note(number: int, place: Place) -> None:
    if _get_ident() != _main_thread:
        _mark_elsewhere(number, place)
    elif number == _main.starts[-1]:
        _main.places[-1] = place
    else:
        _main.starts.append(number)
        _main.places.append(place)
        if len(_main.starts) > MARKS_KEPT:
            _main.forget_old_marks()


if native.compiled is not None:
    mark, back, at = native.compiled.mark, native.compiled.back, native.compiled.at

# Once the program compiles, Dynamo traces these functions too. It must see nothing after their first line.


def mark_unless_traced(statement: int) -> None:
    """Like `mark`, in a program that compiles."""
    if not is_traced():
        mark(statement)


def back_unless_traced(value: Any = None, _mark: None = None) -> Any:
    """Like `back`, in a program that compiles."""
    if not is_traced():
        back_from(sys._getframe(1))
    return value


def at_unless_traced(value: Any, statement: int) -> Any:
    """Like `at`, in a program that compiles."""
    if not is_traced():
        mark(statement)
    return value


def connect(next_number: Callable[[], int], on_other_thread: Callable[[], None]) -> None:
    """Connects the record with torch's node counter."""
    global _next_number, _on_other_thread
    _next_number, _on_other_thread = next_number, on_other_thread
    _marked.clear()
    _know_main_thread()
    if native.compiled is not None:
        native.compiled.connect(
            next_number,
            _main.starts,
            _main.places,
            own_files,
            _mark_elsewhere,
            _main.forget_old_marks,
            MARKS_KEPT,
            _main_thread,
            _marked,
        )
        native.compiled.connect_record(_main.steps, _main.backwards, Step, Backward, STEPS_KEPT)


def _mark_elsewhere(number: int, place: Place) -> None:
    record = current()
    if number != record.starts[-1]:
        record.starts.append(number)
        record.places.append(place)
        if node_threads.known():
            _marked[_thread_number()] = (record.starts, record.places, record.steps, record.backwards)
        else:
            _on_other_thread()
        if len(record.starts) > MARKS_KEPT:
            record.forget_old_marks()
    else:
        record.places[-1] = place


def frames_to_own_code(frame: FrameType | None) -> tuple[Instruction, ...]:
    """The instructions from this frame out to the user's innermost frame; empty if there is no frame of the user."""
    frames: list[Instruction] = []
    while frame is not None:
        code = frame.f_code
        frames.append((code, frame.f_lasti))
        if own_files[code.co_filename]:
            return tuple(frames)
        frame = frame.f_back
    return ()


if native.compiled is not None:
    frames_to_own_code = native.compiled.frames_to_own_code


_new: Any = tuple.__new__
"""Makes a named tuple without a Python call. It runs at every step and every backward, so its speed matters."""


def add_write(write: Write) -> None:
    """Records a write. Drops the older half of the writes when there are too many."""
    writes = _main.writes if _get_ident() == _main_thread else current().writes
    writes.append(write)
    if len(writes) > WRITES_KEPT:
        del writes[: WRITES_KEPT // 2]


@contextlib.contextmanager
def without_writes() -> Iterator[None]:
    """The writes of this block are not kept: a compiler makes them on tensors that are not the program's."""
    writes = current().writes
    count = len(writes)
    try:
        yield
    finally:
        del writes[count:]


def add_step(*fields: Any) -> None:
    """Records an optimizer step. The arguments are the fields of a `Step` without its moment."""
    steps = _main.steps if _get_ident() == _main_thread else current().steps
    steps.append(_new(Step, (_next_number(), *fields)))
    if len(steps) > STEPS_KEPT:
        del steps[: STEPS_KEPT // 2]


def add_backward(frame: FrameType | None) -> None:
    """Records that a backward starts, called from this frame."""
    backwards = _main.backwards if _get_ident() == _main_thread else current().backwards
    backwards.append(_new(Backward, (_next_number(), frames_to_own_code(frame))))
    if len(backwards) > STEPS_KEPT:
        del backwards[: STEPS_KEPT // 2]
