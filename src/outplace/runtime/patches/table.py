"""The table of everything that outplace changes in torch, Python and numpy while it is attached.

A row (`Patch`) says what is changed, how, and why. Its `put` makes the change and returns a function that undoes it. A
`Section` is a list of rows that are put in place together. A section can wait for an import or for the start of a
process group. `Table.open` puts the rows of a section in place, in order. `Table.close` undoes all rows that are in
place, last row first. `outplace debug patches` prints the rows, and `tools/patches_page.py` writes them into
docs/patches.md.

A module, or a detector of silent bugs, declares its rows in a function `patches` that yields them. Nothing may change
before `put` is called, since rows are also listed without being put in place:

    def patches() -> Iterator[Patch]:
        yield descriptor(torch.Tensor, "numpy", _Numpy, "An array that is handed out shares the tensor's memory.")
        yield injected(F.batch_norm, "batch_norm", "running_mean, training", note, "Batch norm writes its statistics.")
        yield registered("torch's hooks of modules", register_hook, "A parameter may be replaced.")

`replaced` and `descriptor` take `make(original)`, which returns the replacement. `injected` (in `code_injection`)
changes the code of a function, which stays the same object. `registered` takes a function that registers a hook and
returns its handle, or a function that removes it. `slot` fills a callback slot of a lower module of outplace. A
detector is an object; its rows use bound methods, as in `descriptor(torch.Tensor, "numpy", self.handed_out, ...)`. The
user's program calls what `make` returns, so that must leave no frame in a traceback (see `caller_frames`). Module state
that belongs to one attachment is cleared with a row: `replaced(...).clearing(_noted, _told)`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Literal

from outplace.runtime.patches import import_hooks

How = Literal["replaced", "descriptor", "code injected", "hook registered", "callback slot", "name in builtins"]
Undo = Callable[[], object]

UNDONE: dict[How, str] = {
    "replaced": "The old value is put back.",
    "descriptor": "The old value is put back.",
    "code injected": "The function gets its own code back.",
    "hook registered": "The hook is removed.",
    "callback slot": "The slot gets its old function back.",
    "name in builtins": "The name is deleted.",
}
"""How each kind of change is undone."""


@dataclass(frozen=True)
class Patch:
    """One row of the table."""

    target: str
    """What is changed, by its full name."""
    how: How
    why: str
    """One plain sentence."""
    put: Callable[[], Undo] = field(repr=False)
    """Makes the change, and returns a function that undoes it."""
    undone: str = ""
    """How the change is undone, if not as `UNDONE` says."""

    @property
    def undoing(self) -> str:
        """How the change is undone, in words."""
        return self.undone or UNDONE[self.how]

    def clearing(self, *containers: Any) -> Patch:
        """The same row. Undoing it also empties these lists, dicts and sets: they belong to one attachment."""

        def put() -> Undo:
            undo = self.put()
            return lambda: [act() for act in (undo, *(container.clear for container in containers))]

        return replace(self, put=put)


@dataclass(frozen=True)
class Wait:
    """What a section waits for. `until` takes the function to call then, and makes the row that calls it."""

    is_over: Callable[[], bool]
    until: Callable[[Callable[[], None]], Patch]


@dataclass(frozen=True, eq=False)
class Section:
    """Rows that are put in place together. With `wait`, they are put in place as soon as the wait is over."""

    name: str
    rows: Callable[[], Iterable[Patch]]
    wait: Wait | None = None
    inner: Callable[[], Iterable[Section]] = tuple
    """The sections to open right after the rows of this one."""


class Table:
    """The rows that are in place, with one stack of the functions that undo them."""

    def __init__(self) -> None:
        self._stack: list[tuple[Section, Undo]] = []
        self._open: list[Section] = []
        self._waiting: list[Section] = []

    def open(self, *sections: Section) -> None:
        """Puts the rows of each section in place, now or as soon as that is possible."""
        for section in sections:
            if section in self._open or section in self._waiting:
                continue
            if section.wait is None or section.wait.is_over():
                self._fill(section)
            else:
                self._waiting.append(section)
                self._put(section, section.wait.until(functools.partial(self._stop_waiting, section)))

    def _stop_waiting(self, section: Section) -> None:
        if section in self._waiting:
            self._waiting.remove(section)
            self._fill(section)

    def _fill(self, section: Section) -> None:
        self._open.append(section)
        for row in section.rows():
            self._put(section, row)
        self.open(*section.inner())

    def _put(self, section: Section, row: Patch) -> None:
        self._stack.append((section, row.put()))

    def is_open(self, section: Section) -> bool:
        """Are the rows of this section in place?"""
        return section in self._open

    def close(self, section: Section | None = None) -> None:
        """Undoes the rows of a section, or of all sections, last row first."""
        kept = [entry for entry in self._stack if section is not None and entry[0] is not section]
        undone = [undo for where, undo in self._stack if section is None or where is section]
        self._stack[:] = kept
        for sections in (self._open, self._waiting):
            sections[:] = [other for other in sections if section is not None and other is not section]
        for undo in reversed(undone):
            undo()


def listed(sections: Iterable[Section]) -> Iterator[tuple[Section, Patch]]:
    """All rows of these sections, in place or not. The wait of a section is a row too."""
    for section in sections:
        if section.wait is not None:
            yield section, section.wait.until(_nothing)
        for row in section.rows():
            yield section, row


def _nothing() -> None:
    return None


# -- kinds of rows --------------------------------------------------------------------------------------------------

_MISSING = object()


def swap(owner: Any, name: str, value: Any) -> Undo:
    """Replaces an attribute. Undoing it leaves the attribute alone if other code has replaced it since."""
    old = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name, _MISSING) is not value:
            return
        if old is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, old)

    return undo


def full_name(owner: Any, name: str) -> str:
    """An attribute's full name, as a program writes it."""
    if isinstance(owner, ModuleType):
        return f"{owner.__name__}.{name}"
    if isinstance(owner, type):
        module = "" if owner.__module__ == "builtins" else f"{owner.__module__}."
        return f"{module}{owner.__qualname__}.{name}"
    return f"{type(owner).__module__}.{type(owner).__qualname__}.{name}"


def replaced(owner: Any, name: str, make: Callable[[Any], Any], why: str, how: How = "replaced") -> Patch:
    """An attribute that `make(original)` replaces."""
    return Patch(full_name(owner, name), how, why, lambda: swap(owner, name, make(getattr(owner, name))))


def descriptor(owner: type, name: str, make: Callable[[Any], Any], why: str) -> Patch:
    """An attribute of a class whose look-ups are recorded. `make(original)` returns the descriptor."""
    return replaced(owner, name, make, why, "descriptor")


def replaced_all(
    target: str, values: Callable[[], Iterable[tuple[Any, str, Any]]], why: str, how: How = "replaced"
) -> Patch:
    """Many attributes that are replaced for the same reason. `values` returns the owner, name and value of each.

    All are read before any is replaced, because Python 3.13 stops caching a class that is changed and read a thousand
    times.
    """

    def put() -> Undo:
        undone = [swap(*entry) for entry in list(values())]
        return lambda: [undo() for undo in reversed(undone)]

    return Patch(target, how, why, put)


def registered(target: str, register: Callable[[], Any], why: str, undone: str = "") -> Patch:
    """A hook: `register` returns its handle, or a function that removes it."""

    def put() -> Undo:
        handle = register()
        remove: Undo = getattr(handle, "remove", handle)
        return remove

    return Patch(target, "hook registered", why, put, undone)


def slot(owner: ModuleType, name: str, value: Callable[..., Any], why: str) -> Patch:
    """A callback slot of outplace that a higher module fills."""
    return Patch(full_name(owner, name), "callback slot", why, lambda: swap(owner, name, value))


# -- what a section can wait for ---------------------------------------------------------------------------------------


def after_import(module: str, attribute: str = "__name__") -> Wait:
    """Waits until a module is imported. `attribute` is one that the module has only after its import is complete."""

    def until(act: Callable[[], None]) -> Patch:
        why = f"Rows that change `{module}` wait until it is imported."
        return registered("sys.meta_path", lambda: import_hooks.then(module, act), why)

    return Wait(lambda: hasattr(sys.modules.get(module), attribute), until)


after_torch = after_import("torch", "Tensor")
