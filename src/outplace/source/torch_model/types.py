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
        if isinstance(value, Instance):
            return (
                kind in value.cls.lineage() or None
                if any(isinstance(base, Unknown) for base in value.cls.lineage())
                else kind in value.cls.lineage()
            )
        return False if isinstance(value, (Tensor, Layer, Const, Items, Dictionary)) else None
    if isinstance(kind, Torch):
        short = kind.name.rpartition(".")[2]
        if kind.name in ("torch.Tensor", "torch.FloatTensor"):
            if isinstance(value, Tensor):
                return True if value.known else None
            return False if isinstance(value, (Const, Plain, Items, Dictionary, Layer, Instance)) else None
        if isinstance(value, Layer):
            return (
                value.kind == f"nn.{short}"
                or value.kind == kind.name
                or kind.name == "torch.nn.Module"
                or _is_base(value.kind, short)
            )
        if isinstance(value, Instance):
            return kind.name in [base.name for base in value.cls.lineage() if isinstance(base, Torch)]
        return False if isinstance(value, (Tensor, Const)) else None
    if isinstance(kind, Outside) and kind.name in _ITERABLE:
        return _is_iterable(value)
    if isinstance(kind, Outside) and kind.name in _SCALARS and isinstance(value, (Items, Dictionary)):
        return False
    names = {"builtins.list": "list", "builtins.tuple": "tuple"}
    if isinstance(value, Items) and hasattr(kind, "name") and kind.name in names:
        return value.kind == names[kind.name]
    if isinstance(value, Dictionary) and getattr(kind, "name", "") == "builtins.dict":
        return True
    if isinstance(value, Tensor) and value.known and getattr(kind, "name", "").startswith("builtins."):
        return False
    if isinstance(value, Const) and getattr(kind, "name", "").startswith("builtins."):
        return bool(type(value.value).__name__ == getattr(kind, "name", "").rpartition(".")[2])
    return None


_SCALARS = ("builtins.str", "builtins.bytes", "builtins.int", "builtins.float", "builtins.bool", "builtins.complex")
_ITERABLE = ("collections.abc.Iterable", "typing.Iterable", "collections.Iterable")


def _is_iterable(value: Value) -> bool | None:
    if isinstance(value, Const):
        return isinstance(value.value, (str, bytes))
    return True if isinstance(value, (Items, Dictionary)) else None


def _is_base(kind: str, short: str) -> bool:
    return short in ("_BatchNorm", "_ConvNd", "_NormBase") and ("BatchNorm" in kind or "Conv" in kind)
