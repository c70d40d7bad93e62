"""Attributes and methods of tensors."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

from outplace.knowledge.silent_rules.gradients import HOOK_WRITES_GRADIENT
from outplace.knowledge.silent_rules.two_names import PARAMETERS_BY_REFERENCE
from outplace.knowledge.traits import always_kind, has, method_has, without_graph
from outplace.source import contents
from outplace.source.graph import Hit, Node
from outplace.source.joins import options
from outplace.source.torch_model import shapes
from outplace.source.torch_model.op_calls import find_op
from outplace.source.torch_model.operations import reduced, run_op
from outplace.source.torch_model.tensors import (
    dtype_of,
    flag,
    fresh,
    node_of,
    requires_grad,
    set_requires_grad,
    tensors_in,
)
from outplace.source.torch_model.writing import target_text
from outplace.source.values import NONE, PLAIN, UNKNOWN, Args, Const, Items, Keywords, Plain, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def tensor_attribute(interpreter: Interpreter, tensor: Tensor, name: str, node: ast.AST) -> Value | None:
    """An attribute of a tensor; None where it is a method."""
    if name == "shape":
        return shapes.as_value(tensor.shape)
    if name == "ndim":
        return shapes.dimensions(tensor.shape)
    if name == "data" and tensor.sequence:
        inside = copy.copy(tensor)
        inside.sequence = False
        return inside
    if name == "data":
        alias = Tensor(tensor.storage, False, dtype=tensor.dtype, known=tensor.known)
        alias.view, alias.untracked, alias.since = "detached", True, interpreter.tape.tick()
        alias.certain, alias.anchor, alias.region = tensor.certain, tensor.anchor, tensor.region
        alias.gradient, alias.shape, alias.packed = tensor.gradient, tensor.shape, tensor.packed
        alias.aliased = tensor
        return alias
    if name == "grad":
        if tensor.grad is None:
            tensor.grad = fresh(interpreter, False, tensor.dtype)
            tensor.grad.shape = tensor.shape
        return _read_gradient(interpreter, tensor)
    if name == "requires_grad":
        known = requires_grad(tensor)
        return PLAIN if known is None else Const(known)
    if name == "is_leaf":
        return Const(tensor.leaf) if tensor.known else PLAIN
    if method_has(name, "view_attribute"):
        return run_op(interpreter, name, [tensor], {}, node)
    return PLAIN if method_has(name, "plain_attribute") or name in ("grad_fn", "_version", "names") else None


def _read_gradient(interpreter: Interpreter, tensor: Tensor) -> Tensor:
    """The gradient, with the time at which it was read."""
    base = tensor.grad
    assert base is not None
    read = Tensor(base.storage, base.requires_grad, base.node, base.leaf, dtype=base.dtype, of=base)
    read.shape, read.packed, read.since = base.shape, base.packed, base.since
    read.read = interpreter.tape.tick() if tensor.has_grad else None
    read.is_none = None if tensor.has_grad is None else False
    if tensor.has_grad is False and tensor.leaf and tensor.known:
        followed = interpreter.tape.went_backward and not interpreter.tape.opaque
        read.is_none = True if followed and tensor.requires_grad and tensor.certain else None
    return read


def is_tensor_method(name: str) -> bool:
    """Do tensors have a method of this name, as far as the op table knows?"""
    return name in _TENSOR_METHODS or name.startswith("new") or find_op(name) is not None or without_graph(name)


def tensor_method(
    interpreter: Interpreter, tensor: Tensor, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value:
    """A method of a tensor."""
    if method_has(name, "plain_method") and name not in _TENSOR_METHODS and not (name == "type" and (args or keywords)):
        return PLAIN
    if has(name, "may_give_indices"):
        return reduced(interpreter, name, [tensor, *args], keywords, node, True)
    special = _TENSOR_METHODS.get(name)
    if special is not None:
        result: Value = special(interpreter, tensor, args, keywords, node)
        return result
    if name == "new" or name.startswith("new_"):
        return _new_tensor(interpreter, name, args, keywords)
    if has(name, "may_share") and always_kind(name) in ("bool", "int"):
        return _whole_numbers(interpreter, tensor, always_kind(name))
    if not tensor.known and not name.endswith("_"):
        return _unknown_method(interpreter, tensor, name, args, keywords, node)
    return run_op(interpreter, name, [tensor, *args], keywords, node, method=True)


def _clone(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`x.clone()`: it is remembered whose copy it is."""
    if not tensor.known:
        return _unknown_method(interpreter, tensor, "clone", args, keywords, node)
    result = run_op(interpreter, "clone", [tensor, *args], keywords, node, method=True)
    if isinstance(result, Tensor):
        result.storage.copied = tensor.storage, interpreter.tape.tick()
    return result


def _copy_into(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`x.copy_(y)`."""
    if args:
        check_own_copy(interpreter, tensor, args[0])
    result = run_op(interpreter, "copy_", [tensor, *args], keywords, node, method=True)
    if tensor.untracked and args and isinstance(args[0], Tensor):
        interpreter.tape.restore(tensor, args[0])
    return result


def _new_tensor(interpreter: Interpreter, name: str, args: Args, keywords: Keywords) -> Tensor:
    """`x.new_zeros(...)` and its kin."""
    tensor = fresh(interpreter, flag(keywords.get("requires_grad")), dtype_of(keywords), leaf=True)
    tensor.packed = True
    tensor.shape = shapes.sizes(args if name != "new_full" else args[:1]) if name != "new_tensor" else None
    return tensor


def _whole_numbers(interpreter: Interpreter, tensor: Tensor, dtype: str | None) -> Tensor:
    """The same shape in integers or booleans: no gradient passes."""
    new_tensor = fresh(interpreter, False, dtype)
    new_tensor.shape = tensor.shape
    return new_tensor


def check_own_copy(interpreter: Interpreter, tensor: Tensor, source: Value) -> None:
    """What is copied back is the tensor's own memory, which has been stepped since it was kept."""
    for kept in options(source):
        if isinstance(kept, Tensor) and kept.storage is tensor.storage and kept is not tensor:
            for write in tensor.storage.writes:
                if write.step and write.time > kept.since:
                    sure = kept.certain and tensor.certain
                    interpreter.tape.hits.append(Hit.silent(PARAMETERS_BY_REFERENCE, write, write.place, sure))


def _set(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`x.set_(y)`: x lies in y's memory from now on, with a version of its own."""
    tensor.shape = None
    if args and isinstance(args[0], Tensor):
        tensor.storage, tensor.untracked, tensor.certain = args[0].storage, True, args[0].certain
    return tensor


def _unknown_method(
    interpreter: Interpreter, tensor: Tensor, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value:
    """A method of a function's argument: a tensor if the op table knows the name."""
    if find_op(name) is None:
        return UNKNOWN
    result = run_op(interpreter, name, [tensor, *args], keywords, node, method=True)
    for found in tensors_in(result):
        found.known = False
    return result


def _backward(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    root = node_of(tensor)
    inputs = list(tensors_in(keywords["inputs"])) if "inputs" in keywords else None
    roots = [root] if root is not None else []
    create = keywords.get("create_graph", args[2] if len(args) > 2 else None)
    retain = keywords.get("retain_graph", args[1] if len(args) > 1 else create)
    interpreter.go_backward(roots, node, inputs, retain is not None and contents.truth(retain) is not False)
    if root is not None and isinstance(create, Const) and create.value:
        _keep_graph(interpreter, root, node)
    return NONE


def _keep_graph(interpreter: Interpreter, root: Node, node: ast.AST) -> None:
    """`backward(create_graph=True)`: the gradients of the leaves are part of a graph themselves."""
    for reached in interpreter.tape.reached([root]):
        for leaf in reached.leaves:
            leaf.grad = fresh(interpreter, True, leaf.dtype)
            leaf.grad.shape = leaf.shape
            leaf.grad.node = interpreter.record("grad", node)
            leaf.grad.node.inputs = [root]


def detached(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`x.detach()`: an alias outside the graph that shares memory and version."""
    alias = Tensor(tensor.storage, False, dtype=tensor.dtype, known=tensor.known)
    alias.view, alias.since = "detached", interpreter.tape.tick()
    alias.certain, alias.anchor = tensor.certain, tensor.anchor
    alias.expanded, alias.inference, alias.gradient = tensor.expanded, tensor.inference, tensor.gradient
    alias.region, alias.aliased = tensor.region, tensor
    alias.untracked, alias.shape, alias.packed = tensor.untracked, tensor.shape, tensor.packed
    return alias


def _detach_in_place(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if tensor.view not in (None, "detached"):
        interpreter.hit("autograd-state", node, tensor.certain and tensor.known, "detach_")
        return tensor
    if not tensor.leaf:
        interpreter.tape.write(tensor, interpreter.place(node), "detach_", target=target_text(node))
    tensor.requires_grad, tensor.node, tensor.leaf = False, None, True
    tensor.since = interpreter.tape.tick()
    return tensor


def _requires_grad(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    wanted = args[0] if args else keywords.get("requires_grad", Const(True))
    set_requires_grad(interpreter, tensor, wanted.value if isinstance(wanted, Const) else None)
    return tensor


def _register_hook(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if args:
        gradient = fresh(interpreter)
        gradient.gradient = HOOK_WRITES_GRADIENT, not tensor.leaf  # few branches share the gradient of a leaf
        interpreter.call(args[0], [gradient], {}, node)
    return PLAIN


def _numpy(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return Plain(tensor.storage, sure=tensor.certain)


def _converted(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`.to()`, `.cuda()`, `.float()`: a copy, or the tensor itself."""
    dtype = next((found for value in (*args, *keywords.values()) if (found := dtype_of({"dtype": value}))), None)
    if dtype in ("int", "bool"):
        return _whole_numbers(interpreter, tensor, dtype)
    return _perhaps_same(interpreter, tensor, dtype)


def _as_float(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return _perhaps_same(interpreter, tensor, "float")


def _perhaps_same(interpreter: Interpreter, tensor: Tensor, dtype: str | None) -> Tensor:
    same = Tensor(tensor.storage, requires_grad(tensor), node_of(tensor), leaf=tensor.leaf, dtype=dtype, of=tensor)
    same.certain, same.view_sure, same.anchor = False, False, object()
    same.since, same.view = interpreter.tape.tick(), tensor.view
    same.parameter, same.inference, same.known = tensor.parameter, tensor.inference, tensor.known
    same.shape, same.packed = tensor.shape, tensor.packed
    same.expanded, same.repeated = tensor.expanded, tensor.repeated
    return same


def _copied(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return run_op(interpreter, "clone", [tensor], {}, node)


def _alias(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return run_op(interpreter, "view", [tensor], {}, node)


def _size(interpreter: Interpreter, tensor: Tensor, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    whole = shapes.as_value(tensor.shape)
    wanted = args[0] if args else keywords.get("dim")
    if wanted is None or not isinstance(whole, Items):
        return whole
    place = wanted.value if isinstance(wanted, Const) else None
    known = isinstance(place, int) and -len(whole.items) <= place < len(whole.items)
    return whole.items[place] if known else PLAIN  # type: ignore[index]


_TENSOR_METHODS: dict[str, Any] = {
    "size": _size, "dim": lambda i, t, a, k, n: shapes.dimensions(t.shape),
    "ndimension": lambda i, t, a, k, n: shapes.dimensions(t.shape),
    "numel": lambda i, t, a, k, n: shapes.elements(t.shape), "nelement": lambda i, t, a, k, n: shapes.elements(t.shape),
    "set_": _set, "clone": _clone, "copy_": _copy_into, "as_subclass": _alias,
    "backward": _backward, "detach": detached, "detach_": _detach_in_place, "requires_grad_": _requires_grad,
    "register_hook": _register_hook, "numpy": _numpy, "to": _converted, "cuda": _converted, "cpu": _converted,
    "float": _as_float, "half": _as_float, "double": _as_float, "bfloat16": _as_float, "type_as": _converted,
    "type": _converted,
    "to_sparse": _copied, "to_sparse_csr": _copied, "to_dense": _copied, "coalesce": lambda i, t, a, k, n: t,
    "retain_grad": lambda i, t, a, k, n: NONE, "share_memory_": lambda i, t, a, k, n: t,
}  # fmt: skip
