"""The operations besides set: what each does to an element, and what repeated ones come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Arithmetic:
    """An operation on (old, value); `combine` joins the values of one place to one value that does the same."""

    __slots__ = ("_function", "combine")

    def __init__(self, function: Callable[[Tensor, Any], Tensor], combine: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._function, self.combine = function, combine

    def __call__(self, old: Tensor, value: Any) -> Tensor:
        """The new element."""
        return self._function(old, value)


def _minimum(old: Tensor, value: Any) -> Tensor:
    return torch.minimum(old, value if isinstance(value, Tensor) else old.new_full((), value))


def _maximum(old: Tensor, value: Any) -> Tensor:
    return torch.maximum(old, value if isinstance(value, Tensor) else old.new_full((), value))


ADD = Arithmetic(torch.add, torch.add)
SUB = Arithmetic(torch.sub, torch.add)
MUL = Arithmetic(torch.mul, torch.mul)
DIV = Arithmetic(torch.div, torch.mul)
POW = Arithmetic(torch.pow, torch.mul)
MIN = Arithmetic(_minimum, torch.minimum)
MAX = Arithmetic(_maximum, torch.maximum)
