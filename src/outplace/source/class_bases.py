"""What is known of the classes that a class of the program is built on."""

from __future__ import annotations

from outplace.knowledge.frameworks import FRAMEWORKS, Framework, framework_of
from outplace.source.values import Class, Outside, Torch, Value

_PLAIN_BASES = ("builtins.object", "abc.ABC", "typing.Generic", "typing.NamedTuple")


def has_unknown_base(cls: Class) -> bool:
    """Is some base of the class in no file that is read here?"""
    return any(not isinstance(base, Class | Torch) and not _is_plain(base) for base in cls.lineage())


def _is_plain(base: Value) -> bool:
    return isinstance(base, Outside) and base.name in _PLAIN_BASES


def framework_behind(cls: Class) -> Framework | None:
    """The framework that a class of the program is built on."""
    outside = [base.name for base in cls.lineage() if isinstance(base, Outside)]
    return next((found for name in outside if (found := framework_of(name)) is not None), None)


def gathers_for(cls: Class, method: str) -> bool:
    """Does a framework gather what it hands to this method, a copy for each call?"""
    behind = framework_behind(cls)
    likely = (known for known in FRAMEWORKS if method in known.entry_points)
    return any(known.gathers and (known is behind or any(map(cls.find, known.gathers))) for known in likely)
