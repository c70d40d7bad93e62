"""Classes of the program and what they inherit from."""

from __future__ import annotations

from outplace.source.values import Class, Outside, Torch, Value


def has_unknown_base(cls: Class) -> bool:
    """Is some base of the class beyond what is read here?"""
    return any(not isinstance(base, (Class, Torch)) and not _is_object(base) for base in cls.lineage())


def _is_object(base: Value) -> bool:
    return isinstance(base, Outside) and base.name in (
        "builtins.object",
        "abc.ABC",
        "typing.Generic",
        "typing.NamedTuple",
    )
