"""How tensors lie in memory: `packed` is True if contiguous, False if not, None if not known.

It decides what `reshape`, `flatten` and `contiguous` are: of what is packed they are views, or the tensor itself; of
anything else perhaps a copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from outplace.knowledge.by_hand import KERNEL_FAMILIES, TURNED_FAMILIES
from outplace.knowledge.traits import has, only_reshapes
from outplace.source.torch_model import regions, shapes
from outplace.source.values import Args, Const, Items, Keywords, Plain, Tensor, Torch, Unknown, Value


def together(tensors: Iterable[Tensor]) -> bool | None:
    """Of what is computed element by element: as all of its operands lie."""
    packed = {tensor.packed for tensor in tensors}
    return False if False in packed else None if None in packed else True


def of_new(name: str, args: Args, keywords: Keywords) -> bool | None:
    """How a new tensor lies: contiguous if made of sizes, like the tensor it was made of, unknown for arrays."""
    if has(name, "layout_by_kernel"):
        return None
    arguments = [value for value in (*args, *keywords.values()) if not isinstance(value, (Const, Torch))]
    of_data = has(name, "from_data") and any(isinstance(value, (Plain, Unknown)) for value in arguments)
    return None if of_data else together([value for value in arguments if isinstance(value, Tensor)])


def of_view(name: str, source: Tensor) -> bool | None:
    """How a view lies, by the operation that made it."""
    if name == "contiguous":
        return True
    return source.packed if keeps_order(name) else False


def keeps_order(name: str) -> bool:
    """Do the elements of such views lie as those of the tensor do?"""
    return has(name, "in_order") or copies_unless_packed(name)


def copies_unless_packed(name: str) -> bool:
    """Does it give a view of what is packed, and a copy of what is not?"""
    return has(name, "copies")


def only_splits(old: shapes.Shape | None, new: shapes.Shape | None) -> bool:
    """Is each old dimension kept, or split into several? Then `reshape` gives a view, however the tensor lies."""
    if old is None or new is None or None in (*old, *new) or 0 in old:
        return False
    rest = list(new)
    for size in old:
        while size > 1 and rest:  # type: ignore[operator]
            part = rest.pop(0)
            if size % part:  # type: ignore[operator]
                return False
            size //= part  # type: ignore[operator]
        if size > 1:  # type: ignore[operator]
            return False
    return True


def turns(name: str) -> bool:
    """Does it give a view of every element, in another order?"""
    return has(name, "whole_view") and not keeps_order(name) and not has(name, "expands")


def turns_in_place(name: str) -> bool:
    """Does it change the order of the dimensions in place?"""
    return only_reshapes(name) and not has(name, "in_order")


def of_result(name: str, tensors: list[Tensor]) -> bool | None:
    """How a result lies that shares no memory with what it was made of."""
    if name == "matmul":
        return _of_product(tensors)
    if has(name, "turns") or has(name, "layout_by_kernel") or name.startswith(TURNED_FAMILIES):
        return None
    if has(name, "packs") and not any(family in name for family in KERNEL_FAMILIES):
        return True
    if shapes.keeps_layout(name):
        return together(tensors)
    return together(tensors) or None  # a transposed operand is mostly copied into another layout


def is_turned_product(name: str, args: list[Value]) -> bool:
    """Does `einsum` of two turn its product, as in `bhij,hg->bgij`?

    It multiplies in the order: letters of both, those of the first alone, those of the second alone.
    """
    pattern = args[0].value if name == "einsum" and args and isinstance(args[0], Const) else ""
    inputs, _, output = str(pattern).replace(" ", "").partition("->")
    first, _, second = inputs.partition(",")
    made = sorted(output, key=lambda letter: (letter not in first or letter not in second, letter not in first))
    is_product_of_two = bool(second) and not {",", "."} & set(second + output)
    sums = not set(first + second) <= set(output)  # else it only multiplies, in the order of the result
    return is_product_of_two and sums and made != list(output)


def of_item(tensor: Tensor, key: Value, known_part: bool) -> bool | None:
    """How `tensor[key]` lies; of a known part that is not one piece it is left open."""
    if not (known_part or regions.is_block(key)):
        return False
    return tensor.packed if tensor.packed is False or _is_piece(key) else None


def _of_product(tensors: list[Tensor]) -> bool | None:
    """A product with a stack of matrices on the right alone is computed turned round."""
    ranks = [None if tensor.shape is None else len(tensor.shape) for tensor in tensors[:2]]
    first, second = ranks if len(ranks) == 2 else (None, None)
    if first is not None and first > 2:
        return True
    return True if first is not None and second is not None and second <= 2 else None


def _is_piece(key: Value) -> bool:
    """`x[2]`, `x[a:b]`, `x[i, a:b]`: one piece of what lies in one piece."""
    keys = list(key.items) if isinstance(key, Items) and key.kind == "tuple" else [key]
    while keys and (isinstance(keys[0], Plain) or (isinstance(keys[0], Const) and type(keys[0].value) is int)):
        keys.pop(0)
    if keys and isinstance(keys[0], Const) and isinstance(keys[0].value, slice):
        if keys[0].value.step not in (None, 1):
            return False
        keys.pop(0)
    return all(isinstance(rest, Const) and rest.value in (slice(None), Ellipsis, None) for rest in keys)
