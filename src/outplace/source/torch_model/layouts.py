"""How tensors lie in memory: `packed` is True in one piece and in order, False where not, None where nobody can tell.

It decides what `reshape`, `flatten` and `contiguous` are: of what is packed they are views, or the tensor itself; of
anything else perhaps a copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from outplace.source.torch_model import regions, shapes
from outplace.source.values import Const, Items, Plain, Tensor, Torch, Unknown, Value

COPIES_UNLESS_PACKED = {"reshape", "flatten", "ravel", "contiguous", "reshape_as", "nn.Flatten"}
"""What they give is a view of what is packed."""
KEEPS_ORDER = {"view", "unsqueeze", "squeeze", "view_as", "detach", "unflatten", "nn.Unflatten", "alias"}
"""The elements of such views lie as those of the tensor do."""
TURNS_IN_PLACE = {"t_", "transpose_", "swapaxes_", "swapdims_", "as_strided_"}

_PACKED_ALWAYS = {
    "nn.functional.linear", "nn.Linear", "nn.functional.embedding", "nn.Embedding", "nn.functional.layer_norm",
    "nn.LayerNorm", "nn.functional.one_hot", "bmm", "mm", "addmm", "topk",
}  # fmt: skip
"""Whatever they are given."""
_TURNED = {
    "einsum", "inner", "tensordot", "nonzero", "argwhere", "quantile", "nanquantile", "rot90", "unique",
    "unique_consecutive", "unravel_index", "stft", "istft", "cholesky", "cholesky_inverse", "cholesky_solve", "geqrf",
    "qr", "svd", "lu", "lu_solve", "lu_unpack", "triangular_solve", "inverse", "pinverse", "matrix_power", "matrix_exp",
    "orgqr", "ormqr", "to", "type", "empty_strided", "empty_permuted", "new_empty_strided",
    "nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward",
    "nn.MultiheadAttention", "nn.LSTM", "nn.GRU", "nn.RNN",
}  # fmt: skip
_TURNED_FAMILIES = ("linalg.", "fft.", "nn.Transformer")
"""They may give what is not packed though all that they are given is."""


def together(tensors: Iterable[Tensor]) -> bool | None:
    """Of what is computed element by element: as all of its operands lie."""
    packed = {tensor.packed for tensor in tensors}
    return False if False in packed else None if None in packed else True


def of_new(name: str, args: list[Value], keywords: dict[str, Value]) -> bool | None:
    """How a tensor lies that a factory makes: of sizes in order, of a tensor as that one, of an array who knows."""
    if name in ("empty_strided", "empty_permuted"):
        return None
    given = [value for value in (*args, *keywords.values()) if not isinstance(value, (Const, Torch))]
    of_data = name in _OF_DATA and any(isinstance(value, (Plain, Unknown)) for value in given)
    return None if of_data else together([value for value in given if isinstance(value, Tensor)])


_OF_DATA = {"tensor", "as_tensor", "asarray", "from_numpy", "frombuffer"}


def of_view(name: str, source: Tensor) -> bool | None:
    """How a view lies, by the operation that made it."""
    if name == "contiguous":
        return True
    return source.packed if name in KEEPS_ORDER or name in COPIES_UNLESS_PACKED else False


def of_result(name: str, tensors: list[Tensor]) -> bool | None:
    """How a result lies that shares no memory with what it was made of."""
    if name in _PACKED_ALWAYS:
        return True
    if name == "matmul":
        return _of_product(tensors)
    if name in _TURNED or name.startswith(_TURNED_FAMILIES):
        return None
    if shapes.keeps_layout(name):
        return together(tensors)
    return together(tensors) or None  # what is turned has to be laid out anew, mostly


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
