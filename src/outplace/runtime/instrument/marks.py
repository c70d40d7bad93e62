"""The functions that marked code calls: their names, and what they are bound to in `builtins`."""

from __future__ import annotations

import atexit
import builtins
import functools
import gc
from collections.abc import Callable
from typing import Any

from outplace.runtime.record import log

MARK, BACK, AT = "__outplace_mark__", "__outplace_back__", "__outplace_at__"
OUT, LEAF, ITEM, CAUGHT = "__outplace_out__", "__outplace_leaf__", "__outplace_item__", "__outplace_caught__"
ATTRIBUTE, INDEX, KEEP = "__outplace_attribute__", "__outplace_index__", "__outplace_keep__"
PART, COMPILE, OWNER = "__outplace_part__", "__outplace_compile__", "__outplace_owner__"
PAIR = "__outplace_pair__"


def pass_on(value: object = None, *_: object, **__: object) -> object:
    """A hook that returns its value and does nothing else."""
    return value


def _nothing(*_: object) -> None:
    return None


_idle: dict[str, Any] = {
    "OUT": pass_on,
    "LEAF": pass_on,
    "ITEM": pass_on,
    "ATTRIBUTE": _nothing,
    "INDEX": pass_on,
    "KEEP": pass_on,
    "CAUGHT": _nothing,
    "PART": pass_on,
    "COMPILE": pass_on,
    "OWNER": pass_on,
    "PAIR": pass_on,
}
"""Hooks that do nothing yet, or nothing any more."""

_marks: dict[str, Any] = {"MARK": log.mark, "BACK": log.back, "AT": log.at}


def publish() -> None:
    """Defines the marks in `builtins`. Those that need torch are replaced when torch is imported."""
    if getattr(builtins, MARK, _nothing) is _nothing:
        put(**_idle)
        atexit.register(retire)
    put(**_marks)


def unpublish(in_use: bool) -> None:
    """Removes the names. If marked code is in use, it may still run, so then they stay and do nothing."""
    atexit.unregister(retire)
    if in_use:
        retire()
        return
    for namespace in namespaces():
        for name in (*_idle, *_marks):
            namespace.pop(globals()[name], None)


def skip_when_traced() -> None:
    """From now on the marks test whether they are traced."""
    _marks.update(MARK=log.mark_unless_traced, BACK=log.back_unless_traced, AT=log.at_unless_traced)
    if hasattr(builtins, MARK):
        put(**_marks)


def put(**functions: Any) -> None:
    """Binds marks: `put(MARK=...)`."""
    for namespace in namespaces():
        namespace.update({globals()[name]: function for name, function in functions.items()})


def bind(name: str, function: Any) -> Callable[[], None]:
    """Binds one mark that needs torch. Returns a function that makes it do nothing again."""
    put(**{name: function})
    return lambda: put(**{name: _idle[name]})


def retire() -> None:
    """Python is about to end. From here on the marks are functions that need no module.

    Objects are still deleted, and their `__del__` run, while Python empties its modules.
    """
    put(MARK=_nothing, BACK=pass_on, AT=pass_on, **_idle)


@functools.cache
def namespaces() -> tuple[dict[str, Any], ...]:
    """The built-in names, and the copy of them that Python makes at its start and restores at its end."""
    now = vars(builtins)
    copies = (
        namespace
        for namespace in gc.get_referrers(builtins.__build_class__)
        if type(namespace) is dict and namespace is not now and namespace.get("__name__") == "builtins"
    )
    return (now, *copies)
