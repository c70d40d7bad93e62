"""The node that autograd makes for an operation, and which tensors it saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outplace.knowledge import ops
from outplace.knowledge.traits import has
from outplace.source.graph import Node, Save
from outplace.source.torch_model.op_calls import OpCall
from outplace.source.torch_model.tensors import any_grad, node_of, requires_grad, tensors_in
from outplace.source.values import UNKNOWN, Choice, Const, Items, Layer, Tensor, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def result_grad(interpreter: Interpreter, call: OpCall) -> bool | None:
    """Does the result require grad? None where that is not known."""
    if interpreter.grad in ("off", "inference") or not call.op.differentiable:
        return False
    found = any_grad(call.inputs)
    return None if found and interpreter.grad == "unknown" else found


def record(interpreter: Interpreter, call: OpCall, grad: bool | None) -> Node | None:
    """The node that autograd makes, with the inputs it saves; None where nothing is recorded."""
    if not grad:
        return None  # also where it is not known: nothing can be concluded from a graph that may not be there
    graph_node = interpreter.record(_node_name(call.op, call.label), call.node)
    graph_node.partial = not all(map(_is_followed, (*call.args, *call.keywords.values())))
    for tensor in call.inputs:
        before = node_of(tensor)
        if before is not None:
            graph_node.inputs.append(before)
        if tensor.leaf and requires_grad(tensor):
            graph_node.leaves.append(tensor)
    if not _is_mean(call):
        _save_inputs(interpreter, call, graph_node)
    if call.layer is not None and has(call.layer.kind, "keeps_first_state"):
        _keep_state(graph_node, call.layer, call)
    return graph_node


def _save_inputs(interpreter: Interpreter, call: OpCall, made: Node) -> None:
    """The inputs that the op table says are saved."""
    for key, sure in call.effect.saved.items():
        if key == call.effect.writes and call.op.copies is not None:
            continue  # it keeps a copy of its target; another operand in the same memory (`h *= h`) is kept as it is
        value = call.argument(key)
        for tensor in tensors_in(value) if value is not None else ():
            if tensor.inference and interpreter.grad == "on":
                interpreter.hit("inference", call.node, bool(sure) and not tensor.storage.refused, "saved")
            really = sure or (call.op.name == "matmul" and _product_keeps(tensor, call.inputs))
            if _may_be_saved(interpreter, call, tensor, really):
                made.saves.append(_save(call, key, tensor, bool(really), made.time))


def _may_be_saved(interpreter: Interpreter, call: OpCall, tensor: Tensor, sure: bool | None) -> bool:
    """`einsum` saves an operand for the others' gradients; and a hypothesis is no reason to guess further."""
    op = call.op
    if op.name == "einsum" and any_grad(other for other in call.inputs if other is not tensor) is False:
        return False
    return sure is not None or not interpreter.assumes or any(when.some for when in op.saves.values())


def _save(call: OpCall, key: str | int, tensor: Tensor, sure: bool, time: int) -> Save:
    folded = has(call.op.name, "folds_operands") and not (call.op.name == "matmul" and _is_matrix_with_grad(tensor))
    surely = sure and (not folded or _folds_without_copy(tensor, call.inputs))
    parameter_like = tensor.leaf and tensor.requires_grad is True
    itself = tensor if _keeps_itself(call.op, key, tensor, call.inputs) else None
    anchor = tensor.anchor if surely else None
    return Save(tensor.storage, time, _role(call.op, key), surely and tensor.certain, parameter_like, anchor, itself)


def _is_followed(value: Value) -> bool:
    """Is it known which graph comes with an argument?"""
    if isinstance(value, Tensor):
        return requires_grad(value) is not None
    if isinstance(value, Items):
        return all(map(_is_followed, (*value.items, *([value.rest] if value.rest is not None else []))))
    return not isinstance(value, Unknown | Choice)


def _is_mean(call: OpCall) -> bool:
    """A pooling to one element is computed as a mean, which keeps nothing."""
    if not has(call.op.name, "mean_of_one"):
        return False
    if call.layer is not None:
        return call.layer.sizes[0] == 1 or call.layer.options.get("output_size") == 1
    size = call.args[1] if len(call.args) > 1 else call.keywords.get("output_size", UNKNOWN)
    sizes = size.items if isinstance(size, Items) else [size]
    return all(isinstance(item, Const) and item.value == 1 for item in sizes)


def _node_name(op: ops.Op, label: str) -> str:
    """The node that keeps something: `a @ b` also makes nodes that only turn or fold its operands."""
    return next((name for name in op.nodes if not name.startswith(("View", "UnsafeView", "Permute"))), label)


def _keep_state(made: Node, layer: Layer, call: OpCall) -> None:
    """They keep the state that they begin with; and of a batch, one step, which needs no copy to be turned."""
    args = call.args
    state = args[1] if len(args) > 1 else call.keywords.get("hx", UNKNOWN)
    made.saves += [Save(tensor.storage, made.time, "hx", tensor.certain) for tensor in tensors_in(state)]
    argument = args[0] if args else None
    one_step = isinstance(argument, Tensor) and argument.shape is not None and argument.shape[1:2] == (1,)
    if isinstance(argument, Tensor) and one_step and layer.options.get("batch_first") is True:
        made.saves.append(Save(argument.storage, made.time, "input", argument.certain))


def _keeps_itself(op: ops.Op, key: str | int, tensor: Tensor, inputs: list[Tensor]) -> bool:
    """Does the node keep this very tensor? `linear` keeps its weight turned, and folds an input that is no matrix."""
    if op.name == "matmul":
        return _is_plain_product(inputs)
    if has(op.name, "turns_weight"):
        return key not in ("weight", 1) and tensor.shape is not None and len(tensor.shape) == 2
    return not has(op.name, "keeps_views")


def _product_keeps(tensor: Tensor, inputs: list[Tensor]) -> bool:
    """A product keeps an operand for the gradient of the other, and folds the other if it must."""
    others = [other for other in inputs if other is not tensor]
    needed = all(requires_grad(other) for other in others)
    return needed and (_is_plain_product(inputs) or _is_matrix_with_grad(tensor))


def _is_matrix_with_grad(tensor: Tensor) -> bool:
    """`x @ weight.T`: with any number of dimensions of x, the weight is kept as it is."""
    return tensor.shape is not None and len(tensor.shape) in (1, 2) and requires_grad(tensor) is True


def _is_plain_product(inputs: list[Tensor]) -> bool:
    """Matrices and vectors are kept as they are; what has more dimensions may be copied first."""
    return {None if other.shape is None else len(other.shape) for other in inputs} <= {1, 2}


def _folds_without_copy(tensor: Tensor, inputs: list[Tensor]) -> bool:
    ranks = {None if other.shape is None else len(other.shape) for other in inputs}
    return tensor.packed is not False or ranks <= {1, 2} or ranks == {3}


def _role(op: ops.Op, key: str | int) -> str:
    if op.name == "einsum":
        return "input"
    if isinstance(key, int) and key < len(op.params):
        return op.params[key].split("|")[0].strip("*")
    return str(key)


def saved_result(interpreter: Interpreter, result: Tensor, surely: bool) -> Save:
    """A node's own result, which it saves."""
    now, anchor = interpreter.tape.tick(), result.anchor if surely else None
    return Save(result.storage, now, "result", surely and result.certain, anchor=anchor)
