"""What was done for such tensors before is done again at once.

To find out how to update a tensor (which kernels, how many blocks, which arguments) takes Python longer than the
device takes for ten megabytes. But it all follows from a description of the operands: dtypes, shapes, strides, an index
that is no tensor, which gradients are wanted. When such an update comes for the second time its kernels are remembered,
and from then on a little C++ (`_again.cpp`) looks at the operands and starts them, and is the node of autograd, too.
Small tensors are left to ATen the first time, which may be the only one: no kernel is compiled for it. As long as the
C++ is not compiled, or where it cannot be, Python finds out anew every time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from outplace import settings
from outplace.updates.kernels.native import Native

SET, SET_UNIQUE, ADD, TAKE, SPLIT = range(5)
"""What is remembered. SET_UNIQUE is promised to name no place twice. TAKE and SPLIT are for backward: rows of the
gradient; and what it gives to x and what to the value.
"""
native = Native(Path(__file__).with_name("_again.cpp"))


class Kind(NamedTuple):
    """How autograd records an update, and what becomes of the gradient."""

    number: int
    apply: Callable[..., Any]
    """The update of x, the index and the value by what makes it, as a Function."""
    gradients: Callable[..., Any]
    """Those of x and the value: of a gradient, whether that of x and of the value are wanted, and what was saved."""
    looked_up: tuple[int | None, int | None] | None
    """What is looked up for these two; None is the gradient itself for x, and nothing for the value."""


kinds: list[Kind] = []


def nothing(x: Tensor, index: Any, value: Any, how: int, /) -> Any:
    """No update is remembered."""
    return None


lookup: Callable[[Tensor, Any, Any, int], Any] = nothing
"""The update, if such a one is remembered; SPLIT gives two tensors, the others one."""


def has_come(x: Tensor, index: Any, value: Any, how: int) -> bool:
    """Has such an update come before, and can it be remembered?"""
    return works() and cast(bool, _module().seen(x, index, value, how))


def first(steps: Any, kind: Kind, how: int, x: Tensor, index: Any, value: Any) -> Tensor:
    """The update by these kernels, recorded as this kind where a gradient is wanted, and remembered."""
    if torch.is_grad_enabled() and (x.requires_grad or (isinstance(value, Tensor) and value.requires_grad)):
        result = kind.apply(x, index, value, steps)
    else:
        result = steps(x, index, value)
    remember(steps, kind, how, x, index, value)
    return cast(Tensor, result)


def first_taken(steps: Any, grad: Tensor, index: Tensor, last: Any) -> Tensor:
    """The rows of a gradient that the index names, taken by these kernels and remembered."""
    taken = steps(grad, index, last)
    remember(steps, None, TAKE, grad, index, last)
    return cast(Tensor, taken)


def first_split(steps: Any, grad: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """What a gradient gives to x and what to the value, by these kernels and remembered."""
    both = steps(grad, index, 0.0)
    remember(steps, None, SPLIT, grad, index, 0.0)
    return cast(tuple[Tensor, Tensor], both)


def remember(steps: Any, kind: Kind | None, how: int, x: Tensor, index: Any, value: Any) -> None:
    """Notes how such an update is made, and of which kind it is where a gradient is wanted, if it comes again.

    Until the kernels say that it is crowded: then it is to be found out anew. For a gradient that is too late.
    """
    global _works
    if not has_come(x, index, value, how):
        return
    from outplace.updates.kernels.on_cuda import launches

    crowded = 0 if steps.crowded is None or how == SPLIT else steps.crowded.data_ptr()
    try:
        known = launches(steps, x)
        if known is not None:
            recipe = _module().Recipe(*known, steps.shapes, crowded)
            _module().remember(x, index, value, how, None if kind is None else kind.number, recipe)
    except (AttributeError, KeyError, TypeError, ValueError):  # a Triton whose kernels are started in another way
        _works = False


def works() -> bool:
    """Is there what is needed to start kernels from C++, by now?"""
    global _works
    if _works is None and _may_work():
        module = native.module()
        with _connecting:
            if module is not None and _works is None:
                _works = connect(module)
    return bool(_works) and not _is_recorded()


_works: bool | None = None
_connecting = threading.Lock()


def _may_work() -> bool:
    """Before torch 2.7 compiled autograd forgets the writes of a node in C++. And Python would have a lock again."""
    usable = torch.__version__ >= (2, 7) and not torch.version.hip and getattr(sys, "_is_gil_enabled", lambda: True)()
    return bool(usable) and not settings.PURE_PYTHON.read() and not _is_recorded()


def _is_recorded() -> bool:
    """Under `outplace run` the nodes are Python's, which can be asked for what they have saved."""
    writes = sys.modules.get("outplace.runtime.patches.tensor_writes")
    return writes is not None and writes.is_installed()


def connect(module: ModuleType, *, on_cuda: bool = True) -> bool:
    """Is the driver there? Elsewhere than on CUDA there is none: that is for tests."""
    global lookup
    given = [(kind.gradients, kind.looked_up is not None, *(kind.looked_up or (None, None))) for kind in kinds]
    exchange = getattr(Tensor, "__dlpack_c_exchange_api__", None)
    try:
        stream, device = torch._C._cuda_getCurrentRawStream, torch._C._cuda_setDevice
    except AttributeError:  # a torch without CUDA
        stream = device = None
    found = cast(bool, module.connect(on_cuda, given, stream, device, exchange if on_cuda else None))
    if found or not on_cuda:
        lookup = module.lookup
    return found


def _module() -> Any:
    return native.module()
