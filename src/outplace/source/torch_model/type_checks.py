"""`isinstance` on abstract values."""

from __future__ import annotations

from outplace.source.values import (
    Class,
    Const,
    Dictionary,
    Instance,
    Items,
    Layer,
    Outside,
    Plain,
    Tensor,
    Torch,
    Unknown,
    Value,
)


def is_instance(value: Value, kind: Value) -> bool | None:
    """`isinstance(value, kind)`; None where that cannot be known."""
    if isinstance(kind, Class):
        return _is_of_class(value, kind)
    if isinstance(kind, Torch):
        return _is_of_torch(value, kind.name)
    if isinstance(kind, Outside):
        return _is_iterable(value) if kind.name in _ITERABLE else _is_builtin(value, kind.name)
    return None


def _is_of_class(value: Value, kind: Class) -> bool | None:
    if isinstance(value, Instance):
        lineage = value.cls.lineage()
        if kind in lineage:
            return True
        return None if any(isinstance(base, Unknown) for base in lineage) else False
    return False if isinstance(value, (Tensor, Layer, Const, Items, Dictionary)) else None


def _is_of_torch(value: Value, name: str) -> bool | None:
    if name in ("torch.Tensor", "torch.FloatTensor"):
        if isinstance(value, Tensor):
            return True if value.known else None
        return False if isinstance(value, (Const, Plain, Items, Dictionary, Layer, Instance)) else None
    if isinstance(value, Layer):
        short = name.rpartition(".")[2]
        return value.kind in (f"nn.{short}", name) or name == "torch.nn.Module" or _is_base(value.kind, short)
    if isinstance(value, Instance):
        return name in [base.name for base in value.cls.lineage() if isinstance(base, Torch)]
    return False if isinstance(value, (Tensor, Const)) else None


def _is_builtin(value: Value, name: str) -> bool | None:
    if isinstance(value, Items):
        return value.kind == _SEQUENCES[name] if name in _SEQUENCES else False if name in _SCALARS else None
    if isinstance(value, Dictionary):
        return True if name == "builtins.dict" else False if name in _SCALARS else None
    library, _, short = name.partition(".")
    if isinstance(value, Const) and library == "builtins":
        return type(value.value).__name__ == short
    return False if isinstance(value, Tensor) and value.known and library == "builtins" else None


_SEQUENCES = {"builtins.list": "list", "builtins.tuple": "tuple"}
_SCALARS = ("builtins.str", "builtins.bytes", "builtins.int", "builtins.float", "builtins.bool", "builtins.complex")
_ITERABLE = ("collections.abc.Iterable", "typing.Iterable", "collections.Iterable")


def _is_iterable(value: Value) -> bool | None:
    if isinstance(value, Const):
        return isinstance(value.value, (str, bytes))
    return True if isinstance(value, (Items, Dictionary)) else None


def _is_base(kind: str, short: str) -> bool:
    return short in ("_BatchNorm", "_ConvNd", "_NormBase") and ("BatchNorm" in kind or "Conv" in kind)
