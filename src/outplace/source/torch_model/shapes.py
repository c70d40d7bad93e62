"""Shapes, as far as constants tell them: a dimension or the whole shape is None where it is not known."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

from outplace.knowledge.ops import lookup
from outplace.knowledge.traits import has, shape_only, traits_of
from outplace.source.values import (
    PLAIN,
    SEVERAL,
    Args,
    Bound,
    Const,
    Items,
    Keywords,
    Layer,
    Plain,
    Tensor,
    Unknown,
    Value,
)

Shape = tuple[int | None, ...]


def result_shape(name: str, args: Args, keywords: Keywords, layer: Layer | None) -> Shape | None:
    """The shape of what an operation of the op table gives; None where it is not known."""
    traits = traits_of(name)
    first = next((value for value in args if isinstance(value, Tensor)), None)
    if first is None or all(value.shape is None for value in args if isinstance(value, Tensor)):
        return None
    if isinstance(args[0], Unknown) or ("broadcasts" in traits and any(isinstance(value, Unknown) for value in args)):
        return None  # it may be a larger tensor
    if layer is not None:
        return _module(name, first.shape, layer)
    if "broadcasts" in traits and "keeps_shape" not in traits:
        return broadcast([value.shape for value in (*args, *keywords.values()) if isinstance(value, Tensor)])
    return _by_rule(name, first.shape, args, keywords) if first.shape is not None else None


def _by_rule(name: str, shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    """What an operation makes of the shape of its first tensor."""
    traits = traits_of(name)
    if "keeps_shape" in traits:
        return shape
    if "reduces" in traits:
        if len(args) > 1 and isinstance(args[1], Tensor):
            return broadcast([shape, args[1].shape]) if "may_give_indices" in traits else None  # `max(x, y)`
        return _reduced(shape, name, args, keywords)
    if "other" in shape_only(name):
        return _like_other(args)
    run = _RULES.get(name.partition("(")[0].rpartition(".")[2].rstrip("_"))
    return run(shape, args, keywords) if run is not None else None


def keeps_layout(name: str) -> bool:
    """Does its result lie in memory as its input does? (`x.transpose(1, 2) * 2` is transposed, too.)"""
    return has(name, "keeps_layout")


def is_elementwise(name: str) -> bool:
    """Does it broadcast its operands?"""
    return name == "copy_" or has(name, "broadcasts")


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that all these broadcast to; None where one is not known or they do not fit."""
    result: Shape = ()
    for shape in shapes:
        if shape is None:
            return None
        longer, other = (shape, result) if len(shape) >= len(result) else (result, shape)
        padded = (1,) * (len(longer) - len(other)) + other
        dims = [_broadcast_dim(one, two) for one, two in zip(longer, padded, strict=True)]
        if -1 in dims:
            return None
        result = tuple(dims)
    return result


def _broadcast_dim(one: int | None, two: int | None) -> int | None:
    if one == two or two == 1:
        return one
    if one == 1:
        return two
    if one is None or two is None:
        return one if two is None else two
    return -1


def fits_into(target: Shape | None, others: Sequence[Shape | None]) -> bool:
    """Can an in-place operation write its result? False only where it surely cannot."""
    if target is None:
        return True
    for shape in others:
        if shape is None:
            continue
        if len(shape) > len(target):
            return False
        for one, two in zip(reversed(target), reversed(shape), strict=False):
            if one is not None and two is not None and two not in (1, one):
                return False
    return True


def without_ones(shape: Shape | None) -> Shape | None:
    """Item assignment passes over leading ones of the value."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def is_expanded(before: Shape | None, after: Shape | None) -> bool | None:
    """Does `expand` from one shape to the other repeat anything? None where that is not known."""
    if before is None or after is None or len(after) < len(before):
        return None
    if None in before or None in after:
        return None
    return (1,) * (len(after) - len(before)) + before != after


def repeated(before: Shape | None, after: Shape | None) -> frozenset[int]:
    """The dimensions that `expand` from one shape to the other repeats, as far as they are known."""
    if before is None or after is None or len(after) < len(before):
        return frozenset()
    padded = (1,) * (len(after) - len(before)) + before
    return frozenset(place for place, (old, new) in enumerate(zip(padded, after, strict=True)) if old == 1 != new)


def long_dimensions(key: Value, shape: tuple[int | None, ...]) -> frozenset[int]:
    """The dimensions of which `x[key]` takes everything, or surely several, as numbers, slices and an ellipsis tell."""
    rank = len(shape)
    keys = key.items if isinstance(key, Items) and key.kind == "tuple" else [key]
    found, place = set[int](), 0
    for count, index in enumerate(keys):
        word = index.value if isinstance(index, Const) else index
        if word is Ellipsis:
            skipped = rank - place - sum(_takes_a_dimension(other) for other in keys[count + 1 :])
            found.update(range(place, place + skipped))
            place += skipped
        elif word is not None:
            if isinstance(word, slice) and place < rank and (word == slice(None) or _takes_several(word, shape[place])):
                found.add(place)
            place += 1
    return frozenset([*found, *range(place, rank)])


def _takes_several(part: slice, size: int | None) -> bool:
    try:
        return size is not None and len(range(size)[part]) > 1
    except (TypeError, ValueError):  # its ends are no numbers
        return False


def _integer(value: Value | None) -> int | None:
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    return None


def takes_sizes(function: ast.expr) -> bool:
    """Is it called by any number of sizes?"""
    return isinstance(function, ast.Attribute) and has(function.attr, "variadic")


def sizes(args: Args) -> Shape | None:
    """A shape given as numbers or as one tuple of them."""
    if SEVERAL in args:
        return None
    if len(args) == 1 and isinstance(args[0], Items):
        return None if args[0].rest is not None else tuple(_integer(item) for item in args[0].items)
    if len(args) == 1 and not isinstance(args[0], Const):
        return None  # a number, or a tuple of them
    return tuple(_integer(value) for value in args)


def of_literal(value: Value) -> Shape | None:
    """The shape of `torch.tensor(value)`."""
    if isinstance(value, Const):
        return ()
    if isinstance(value, Items) and value.rest is None and value.items:
        inner = of_literal(value.items[0])
        return None if inner is None else (len(value.items), *inner)
    return None


def _option(args: Args, keywords: Keywords, place: int, name: str) -> Value | None:
    return keywords.get(name, args[place] if place < len(args) else None)


def _axis(value: Value | None, rank: int) -> int | None:
    number = _integer(value)
    return None if number is None or not -rank <= number < rank else number % rank


def _reduced(shape: Shape, name: str, args: Args, keywords: Keywords) -> Shape | None:
    op = lookup(name)
    order = (op.params if op is not None else ()) or ("input", "dim", "keepdim")
    places = {word: place for place, names in enumerate(order) for word in names.split("|")}
    dim = _option(args, keywords, places.get("dim", len(args)), "dim") or keywords.get("axis")
    if dim is None or (isinstance(dim, Const) and dim.value is None):
        return ()
    axes = [_axis(item, len(shape)) for item in (dim.items if isinstance(dim, Items) else [dim])]
    keep = _option(args, keywords, places.get("keepdim", len(args)), "keepdim")
    if None in axes or (keep is not None and not isinstance(keep, Const)):
        return None
    if isinstance(keep, Const) and keep.value:
        return tuple(1 if place in axes else size for place, size in enumerate(shape))
    return tuple(size for place, size in enumerate(shape) if place not in axes)


def _module(name: str, shape: Shape | None, layer: Layer) -> Shape | None:
    if shape is None or has(name, "keeps_shape"):
        return shape
    short = name.partition("(")[0].rpartition(".")[2]
    if short == "Linear" and shape:
        return (*shape[:-1], layer.sizes[1])
    if short == "Embedding":
        return (*shape, layer.sizes[1])
    if short.startswith("Conv") and shape:
        rank = int(short[-2])
        if len(shape) == rank + 2:
            return (shape[0], layer.sizes[1], *[None] * rank)
    if short.startswith(("MaxPool", "AvgPool", "AdaptiveAvgPool")) and len(shape) > 1:
        return (*shape[: -int(short[-2])], *[None] * int(short[-2]))
    if short in ("GRUCell", "RNNCell") and shape:
        return (*shape[:-1], layer.sizes[1])
    return (shape[0], None) if short == "Flatten" and shape else None


def _view(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    wanted = sizes(args[1:]) if len(args) > 1 else None
    if wanted is None:
        return None
    if -1 in wanted and None not in wanted and None not in shape:
        rest = product([size for size in wanted if size != -1])
        return tuple(product(shape) // rest if size == -1 and rest else size for size in wanted)
    return tuple(None if size == -1 else size for size in wanted)


def product(numbers: Sequence[int | None]) -> int:
    """All of them multiplied."""
    result = 1
    for number in numbers:
        result *= number or 0
    return result


def _expand(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    wanted = sizes(args[1:]) if len(args) > 1 else None
    if wanted is None or len(wanted) < len(shape):
        return None
    padded = (1,) * (len(wanted) - len(shape)) + shape
    return tuple(old if new == -1 else new for old, new in zip(padded, wanted, strict=True))


def _like_other(args: Args) -> Shape | None:
    other = args[1] if len(args) > 1 else None
    return other.shape if isinstance(other, Tensor) else None


def _unsqueeze(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    axis = _axis(_option(args, keywords, 1, "dim"), len(shape) + 1)
    return None if axis is None else (*shape[:axis], 1, *shape[axis:])


def _squeeze(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    dim = _option(args, keywords, 1, "dim")
    if dim is None:
        return None if None in shape else tuple(size for size in shape if size != 1)
    axis = _axis(dim, len(shape))
    if axis is None or shape[axis] is None:
        return None
    return shape if shape[axis] != 1 else (*shape[:axis], *shape[axis + 1 :])


def _transpose(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    one = _axis(_option(args, keywords, 1, "dim0"), len(shape))
    two = _axis(_option(args, keywords, 2, "dim1"), len(shape))
    if one is None or two is None:
        return (None,) * len(shape)
    dims = list(shape)
    dims[one], dims[two] = dims[two], dims[one]
    return tuple(dims)


def _permute(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    order = sizes(args[1:])
    if (
        order is None
        or None in order
        or sorted(place % len(shape) for place in order if place is not None) != list(range(len(shape)))
    ):
        return (None,) * len(shape)
    return tuple(shape[place] for place in order if place is not None)


def _turn(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    return tuple(reversed(shape)) if len(shape) < 3 else None


def _turn_last(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    return (*shape[:-2], shape[-1], shape[-2]) if len(shape) > 1 else None


def _flatten(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    start = _axis(_option(args, keywords, 1, "start_dim") or Const(0), len(shape))
    end = _axis(_option(args, keywords, 2, "end_dim") or Const(-1), len(shape))
    if start is None or end is None:
        return None
    middle = shape[start : end + 1]
    return (*shape[:start], None if None in middle else product(middle), *shape[end + 1 :])


def _matmul(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    other = args[1].shape if len(args) > 1 and isinstance(args[1], Tensor) else None
    if other is None or not shape or not other:
        return None
    if len(other) == 1:
        return shape[:-1]
    if len(shape) == 1:
        return (*other[:-2], other[-1])
    batch = broadcast([shape[:-2], other[:-2]])
    return None if batch is None else (*batch, shape[-2], other[-1])


def _linear(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    weight = args[1] if len(args) > 1 else None
    out = weight.shape[0] if isinstance(weight, Tensor) and weight.shape else None
    return (*shape[:-1], out) if shape else None


def _narrow(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    axis, length = _axis(_option(args, keywords, 1, "dim"), len(shape)), _option(args, keywords, 3, "length")
    return None if axis is None else (*shape[:axis], _integer(length), *shape[axis + 1 :])


def _like_last(args: Args, keywords: Keywords) -> Shape | None:
    index = _option(args, keywords, 2, "index")
    return index.shape if isinstance(index, Tensor) else None


def _index_select(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    axis, index = _axis(_option(args, keywords, 1, "dim"), len(shape)), _option(args, keywords, 2, "index")
    count = index.shape[0] if isinstance(index, Tensor) and index.shape else None
    return None if axis is None else (*shape[:axis], count, *shape[axis + 1 :])


def _diag(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    size = shape[0] if shape and len(args) == 1 and not keywords else None
    return (size, size) if len(shape) == 1 else (None,) if len(shape) == 2 else None


def _one_hot(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    return (*shape, _integer(_option(args, keywords, 1, "num_classes")))


def _solve(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    """One matrix: what solves the equations lies like their right side."""
    return _like_other(args) if len(shape) == 2 and not keywords.keys() & {"left"} else None


def _outer(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    other = _like_other(args)
    return (*shape, *other) if other is not None else None


def _einsum(shape: Shape, args: Args, keywords: Keywords) -> Shape | None:
    text = args[0].value if isinstance(args[0], Const) else None
    if not isinstance(text, str) or "->" not in text or "." in text:
        return None
    inputs, output = text.replace(" ", "").split("->")
    sizes_of: dict[str, int | None] = {}
    for letters, tensor in zip(inputs.split(","), args[1:], strict=False):
        known = tensor.shape if isinstance(tensor, Tensor) else None
        sizes_of.update(zip(letters, known, strict=False) if known is not None else ())
    return tuple(sizes_of.get(letter) for letter in output)


_RULES: dict[str, Callable[[Shape, Args, Keywords], Shape | None]] = {
    "view": _view, "reshape": _view, "expand": _expand, "unsqueeze": _unsqueeze, "squeeze": _squeeze,
    "transpose": _transpose, "swapaxes": _transpose, "permute": _permute, "t": _turn, "flatten": _flatten,
    "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "mv": _matmul, "linear": _linear, "narrow": _narrow,
    "broadcast_to": _expand, "index_select": _index_select, "gather": lambda s, a, k: _like_last(a, k),
    "diag": _diag, "one_hot": _one_hot, "solve": _solve, "outer": _outer, "ger": _outer, "einsum": _einsum,
    "inverse": lambda s, a, k: s, "matrix_power": lambda s, a, k: s, "det": lambda s, a, k: s[:-2],
    "logdet": lambda s, a, k: s[:-2], "T": _turn, "H": _turn, "mT": _turn_last, "mH": _turn_last, "adjoint": _turn_last,
}  # fmt: skip


def item_shape(shape: Shape | None, key: Value) -> Shape | None:
    """The shape of `x[key]` by numbers, slices, None and an ellipsis."""
    if shape is None:
        return None
    keys = key.items if isinstance(key, Items) and key.kind == "tuple" else [key]
    left, result = list(shape), list[int | None]()
    for place, index in enumerate(keys):
        word = index.value if isinstance(index, Const) else index
        if word is Ellipsis:
            skipped = len(left) - sum(_takes_a_dimension(other) for other in keys[place + 1 :])
            result.extend(left[:skipped])
            del left[:skipped]
        elif word is None:
            result.append(1)
        elif not left or isinstance(word, bool):
            return None
        else:
            size = left.pop(0)
            if isinstance(word, slice):
                result.append(_slice_length(size, word))
            elif isinstance(word, Bound):  # a slice whose place is not known
                result.append(_integer(word.receiver))
            elif not isinstance(word, (int, Plain)):
                return None
    return (*result, *left)


def _takes_a_dimension(index: Value) -> bool:
    return not (isinstance(index, Const) and index.value in (None, Ellipsis))


def _slice_length(size: int | None, index: slice) -> int | None:
    if index == slice(None):
        return size
    if size is None:
        first, last = index.start or 0, index.stop
        whole = index.step is None and isinstance(first, int) and isinstance(last, int) and first * last >= 0
        return max(0, last - first) if whole else None
    try:
        return len(range(size)[index])
    except (TypeError, ValueError, OverflowError):
        return None


def parts_shape(shape: Shape | None, name: str, args: Args, keywords: Keywords) -> Shape | None:
    """The shape of each part of unbind, chunk or split."""
    if shape is None or not shape:
        return None
    place = 1 if name == "unbind" else 2
    axis = _axis(_option(args, keywords, place, "dim") or Const(0), len(shape))
    if axis is None:
        return None
    if name == "unbind":
        return (*shape[:axis], *shape[axis + 1 :])
    count, size = _integer(args[1] if len(args) > 1 else None), shape[axis]
    length = None
    if count and size is not None:
        length = count if name == "split" else size // count
        if size % count:
            length = None
    return (*shape[:axis], length, *shape[axis + 1 :])


def joined(name: str, parts: list[Tensor], args: Args, keywords: Keywords) -> Shape | None:
    """The shape of `cat` and `stack`, where the number of parts is known."""
    shape = parts[0].shape if parts else None
    exact = bool(args) and isinstance(args[0], Items) and args[0].rest is None
    if shape is None or not exact or any(part.shape is None or len(part.shape) != len(shape) for part in parts):
        return None
    stacks = name.startswith("Stack")
    axis = _axis(_option(args, keywords, 1, "dim") or Const(0), len(shape) + stacks)
    if axis is None:
        return None
    if stacks:
        return (*shape[:axis], len(parts), *shape[axis:])
    lengths = [part.shape[axis] for part in parts if part.shape is not None]
    total = None if None in lengths else sum(length or 0 for length in lengths)
    return (*shape[:axis], total, *shape[axis + 1 :])


def as_value(shape: Shape | None) -> Value:
    """What `x.shape` gives."""
    if shape is None:
        return PLAIN
    return Items([PLAIN if size is None else Const(size) for size in shape], "tuple")


def dimensions(shape: Shape | None) -> Value:
    """What `x.ndim` and `x.dim()` give."""
    return PLAIN if shape is None else Const(len(shape))


def elements(shape: Shape | None) -> Value:
    """What `x.numel()` gives."""
    sizes = () if shape is None else [size for size in shape if size is not None]
    return PLAIN if shape is None or len(sizes) < len(shape) else Const(math.prod(sizes))
