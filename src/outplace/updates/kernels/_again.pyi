from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import Tensor, dtype

class Recipe:
    def __init__(
        self,
        launches: tuple[tuple[Any, ...], ...],
        kernels: tuple[Any, ...],
        shapes: tuple[list[int] | None, ...],
        crowded: int,
        /,
    ) -> None: ...
    def __call__(self, x: Tensor, index: Any, value: Any, /, *more: Tensor) -> Any: ...

class Backward:
    def __init__(self, how: int, otherwise: Callable[..., Any], /) -> None: ...
    def __call__(self, ctx: Any, /, *grads: Tensor) -> Any: ...

def lookup(x: Tensor, index: Any, value: Any, how: int, /) -> Any: ...
def forward(ctx: Any, x: Tensor, index: Tensor, value: Any, make: Callable[..., Any], /) -> Any: ...
def seen(x: Tensor, index: Any, value: Any, how: int, /) -> bool: ...
def remember(
    x: Tensor, index: Any, value: Any, how: int, apply: Callable[..., Any] | None, make: Callable[..., Any], /
) -> None: ...
def connect(
    tensor: type,
    parameter: type,
    float16: dtype,
    bfloat16: dtype,
    empty_like: Callable[..., Any],
    transforms_active: Callable[[], bool],
    dispatch_modes: Callable[[], int],
    tracing_state: Callable[[], Any],
    forward_ad: ModuleType,
    is_deterministic: Callable[[], bool],
    is_grad_enabled: Callable[[], bool],
    current_device: Callable[[], int],
    current_stream: Callable[[int], int],
    set_device: Callable[[int], None],
    exchange: Any,
    /,
) -> bool: ...
def forget() -> None: ...
