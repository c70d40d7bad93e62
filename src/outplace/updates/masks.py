"""Updates under a mask; `to_mask`, which makes a mask of any index; and `blend`, the formula with a mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import mode, values
from outplace.updates.arithmetic import ADD, SUB, Arithmetic
from outplace.updates.masked_set import masked_set


def to_mask(index_: Any, *, like: Tensor) -> Tensor:
    """A bool tensor of `like`'s shape, True exactly where `like[index]` reads; any index that `like[index]` takes."""
    from outplace.updates.at_index import at

    return at(torch.zeros(like.shape, dtype=torch.bool, device=like.device))[index_].set(True)


def blend(x: Tensor, mask: Tensor, v: Any) -> Tensor:
    """`x + mask * (v - x)`: v where the mask is 1, x where it is 0, between them for masks of fractions.

    For soft masks. For a bool mask `at(x)[mask].set(v)` is several times as fast, and right where this is not: an `inf`
    or `nan` in x or v becomes `nan` in the result and in gradients, masked or not, and `x + (v - x)` is v only up to
    rounding.
    """
    return x + mask * (v - x)


def put(x: Tensor, mask: Tensor, dim: int, value: Any) -> Tensor:
    """A copy of x with the value where the mask, over the dimensions from `dim` on, is True."""
    spread = _aligned_value(x, mask, dim, value)
    wide = _aligned_mask(x, mask, dim)
    if spread is not None:
        return masked_set(x, wide, spread)
    if not mode.looks_at_values(x, mask, value):
        return torch.where(wide, _in_order(x, mask, dim, value), x)
    value = _counted(x, mask, dim, value)
    mask = mask.expand(x.shape[dim : dim + mask.dim()])
    if dim == 0:
        return torch.index_put(x, (mask,), value)
    return torch.ops.aten.index_put.default(x, [None] * dim + [mask], value)


def change(x: Tensor, mask: Tensor, dim: int, value: Any, operation: Arithmetic) -> Tensor:
    """A copy of x with `operation(x, value)` where the mask is True."""
    wide = _aligned_mask(x, mask, dim)
    spread = _aligned_value(x, mask, dim, value)
    if spread is None:
        if mode.looks_at_values(x, mask, value):
            value = _counted(x, mask, dim, value)
        spread = _in_order(x, mask, dim, value)
    if operation in (ADD, SUB):
        return masked_set(x, wide, operation(x, spread).to(x.dtype))
    # Outside the mask the operation works on ones: an inf or nan there would reach the gradients as 0 * inf.
    if isinstance(spread, Tensor):
        spread = torch.where(wide, spread, 1)
    new = operation(torch.where(wide, x, 1), spread)
    return masked_set(x, wide, new.to(x.dtype))


def _aligned_mask(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    """The mask with a dimension of size 1 for each of x's that come after its own."""
    return mask.reshape(mask.shape + (1,) * (x.dim() - dim - mask.dim()))


def _aligned_value(x: Tensor, mask: Tensor, dim: int, value: Any) -> Any:
    """The value as it broadcasts to x, or None if it has an entry for each True of the mask."""
    if not isinstance(value, Tensor) or value.shape == x.shape:
        return value
    before, after = x.shape[:dim], x.shape[dim + mask.dim() :]
    shape = value.shape
    while len(shape) > len(before) + 1 + len(after) and shape[0] == 1:
        shape = shape[1:]
    full = (1,) * (len(before) + 1 + len(after) - len(shape)) + tuple(shape)
    if len(full) != len(before) + 1 + len(after) or full[dim] != 1:
        return None
    if not values.broadcasts(full, (*before, 1, *after)):
        return None
    return value.reshape(*full[:dim], *(1,) * mask.dim(), *full[dim + 1 :])


def _in_order(x: Tensor, mask: Tensor, dim: int, value: Tensor) -> Tensor:
    """The value with its entries moved to the True elements of the mask, in order; anything elsewhere."""
    if value.numel() == 0:
        return torch.ones_like(x) + value.sum()  # an empty sum, so that autograd still knows the value
    mask = mask.expand(x.shape[dim : dim + mask.dim()])
    after = x.dim() - dim - mask.dim()
    while value.dim() > dim + 1 + after and value.shape[0] == 1:
        value = value[0]
    at_dim = max(value.dim() - after - 1, 0)
    number = mask.reshape(-1).cumsum(0).sub(1).clamp(0, value.shape[at_dim] - 1)
    moved = value.index_select(at_dim, number)
    return moved.reshape(*value.shape[:at_dim], *mask.shape, *value.shape[at_dim + 1 :])


def _counted(x: Tensor, mask: Tensor, dim: int, value: Tensor) -> Tensor:
    """The value, if it has an entry for each True of the mask. To count them it waits for the device."""
    count = int(mask.expand(x.shape[dim : dim + mask.dim()]).sum())
    checked: Tensor = values.broadcast(value, (*x.shape[:dim], count, *x.shape[dim + mask.dim() :]))
    return checked
