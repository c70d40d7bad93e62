"""Making tensors, and asking what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from outplace.knowledge.ops import Arg
from outplace.source.graph import Family, Node, Storage
from outplace.source.joins import options
from outplace.source.values import Bound, Const, Dictionary, Items, Keywords, Plain, Tensor, Torch, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_INT_DTYPES = {"long", "int", "int64", "int32", "int16", "int8", "uint8", "short", "bool"}


def fresh(
    interpreter: Interpreter, requires_grad: bool | None = False, dtype: str | None = None, leaf: bool = False
) -> Tensor:
    """A tensor in memory of its own."""
    tensor = Tensor(Storage(), requires_grad, leaf=leaf, dtype=dtype)
    tensor.since = interpreter.tape.tick()
    tensor.inference = interpreter.grad == "inference"
    if leaf and requires_grad:
        tensor.family.leaf = tensor
    return tensor


def parameter(interpreter: Interpreter, requires_grad: bool | None = True) -> Tensor:
    """A parameter of a module."""
    tensor = fresh(interpreter, requires_grad, "float", leaf=True)
    tensor.parameter = tensor.packed = True
    tensor.inference = False
    return tensor


def copied(interpreter: Interpreter, tensor: Tensor) -> Tensor:
    """A deep copy: a leaf of its own with the same flags."""
    new_tensor = fresh(interpreter, tensor.requires_grad if tensor.leaf else False, tensor.dtype, leaf=tensor.leaf)
    new_tensor.parameter, new_tensor.shape, new_tensor.packed = tensor.parameter, tensor.shape, tensor.packed
    return new_tensor


def requires_grad(tensor: Tensor) -> bool | None:
    """Does it require grad now? A recorded write into its storage makes it so."""
    if tensor.family.since > tensor.since and tensor.family.node is not None:
        return tensor.family.grad or tensor.requires_grad
    return tensor.requires_grad


def node_of(tensor: Tensor) -> Node | None:
    """The node that made its present value."""
    if tensor.family.since > tensor.since and tensor.family.node is not None:
        return tensor.family.node
    return tensor.node


def depend_on(node: Node, tensors: Iterable[Tensor]) -> None:
    """Makes the node depend on the graphs of these tensors, and on the leaves among them."""
    for tensor in tensors:
        before = node_of(tensor)
        if before is not None:
            node.inputs.append(before)
        if tensor.leaf and tensor.requires_grad:
            node.leaves.append(tensor)


def is_stale(tensor: Tensor) -> bool:
    """A view that was made before its memory got a history, and not read since: PyTorch takes it for a leaf."""
    own = tensor.view not in (None, "detached") and tensor.node is None and tensor.requires_grad is False
    return own and tensor.family.grad is True and tensor.family.since > tensor.since


def refresh(tensor: Tensor) -> None:
    """What reading a tensor does: a view takes on the history that a write elsewhere gave it."""
    if tensor.family.since > tensor.since and tensor.family.node is not None:
        tensor.requires_grad, tensor.node = requires_grad(tensor), tensor.family.node
        tensor.since = tensor.family.since


def as_argument(value: Value) -> Arg:
    """What the op table wants to know of an argument."""
    if isinstance(value, Tensor):
        return Arg(True if value.known else None, requires_grad(value))
    if isinstance(value, Const):
        return Arg.constant(value.value)
    if isinstance(value, Items):
        tensors = [item for item in value.items if isinstance(item, Tensor)]
        if tensors:
            grads = [requires_grad(tensor) for tensor in tensors]
            return Arg(True, True if True in grads else None if None in grads else False)
        return Arg(False, False) if value.rest is None else Arg(None, None)
    if isinstance(value, (Plain, Bound)):
        return Arg(False, False)
    return Arg(None, None)


def tensors_in(value: Value, seen: set[int] | None = None) -> Iterator[Tensor]:
    """All tensors a value holds or may be. A container that it holds twice, or that holds itself, is looked at once."""
    seen = set() if seen is None else seen
    for option in options(value):
        if isinstance(option, Tensor):
            yield option
        elif isinstance(option, (Items, Dictionary)) and id(option) not in seen:
            seen.add(id(option))
            held = option.items if isinstance(option, Items) else option.items.values()
            rest = [option.rest] if isinstance(option, Items) and option.rest is not None else []
            for item in (*held, *rest):
                yield from tensors_in(item, seen)


def any_grad(tensors: Any) -> bool | None:
    """Does one of them require grad? None where that is not known."""
    grads = [requires_grad(tensor) for tensor in tensors]
    return True if True in grads else None if None in grads else False


def set_requires_grad(interpreter: Interpreter, tensor: Tensor, on: bool | None) -> None:
    """`x.requires_grad_(on)`."""
    if tensor.node is not None or (tensor.family.node is not None and not tensor.leaf):
        return
    tensor.requires_grad = on if tensor.dtype not in ("int", "bool") else False
    tensor.leaf = True
    tensor.since = interpreter.tape.tick()
    if tensor.view == "view" and on and not tensor.family.grad:
        tensor.family = Family()  # a view of what needs no grad becomes a leaf by itself
    if tensor.view in (None, "detached") or tensor.family.leaf is None:
        tensor.family.leaf = tensor if on else None
        tensor.family.grad = tensor.requires_grad


def flag(value: Value | None) -> bool | None:
    """A flag given as an argument: False if absent, None if not known."""
    if value is None:
        return False
    return bool(value.value) if isinstance(value, Const) else None


def dtype_of(keywords: Keywords) -> str | None:
    """The kind of dtype that a call asks for."""
    value = keywords.get("dtype")
    if isinstance(value, Torch):
        word = value.name.rpartition(".")[2]
        if value.name.startswith("torch.device"):
            return None
        if word.startswith(("complex", "cfloat", "cdouble", "chalf")):
            return "complex"
        return "bool" if word == "bool" else "int" if word in _INT_DTYPES else "float"
    return None
