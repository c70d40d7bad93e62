"""Running an operation of the op table: what it reads, writes, saves and returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.knowledge import ops
from outplace.knowledge.names import AUGMENTED, OPERATORS, REFLECTED, SYMBOLS
from outplace.knowledge.traits import has
from outplace.source.graph import Hit, compatible
from outplace.source.torch_model import layouts, shapes
from outplace.source.torch_model.leaf_aliases import check_overwritten, note_overwritten
from outplace.source.torch_model.op_calls import OpCall, find_op
from outplace.source.torch_model.results import new_results
from outplace.source.torch_model.saving import record, result_grad, saved_result
from outplace.source.torch_model.tensors import any_grad, fresh, refresh, requires_grad
from outplace.source.torch_model.writing import check_kept_gradient, check_overlap, check_write, rebase, target_text
from outplace.source.values import UNKNOWN, Args, Choice, Items, Keywords, Layer, Plain, Tensor, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def run_op(
    interpreter: Interpreter,
    name: str,
    args: Args,
    keywords: Keywords,
    node: ast.AST,
    *,
    method: bool = False,
    label: str | None = None,
    layer: Layer | None = None,
) -> Value:
    """Runs an operation of the op table: what it saves, shares and writes is noted."""
    chosen = next((value for value in (*args, *keywords.values()) if isinstance(value, Choice)), None)
    if chosen is not None:

        def on(option: Value) -> Value:
            swapped = [option if value is chosen else value for value in args]
            swapped_keywords = {key: option if value is chosen else value for key, value in keywords.items()}
            return run_op(interpreter, name, swapped, swapped_keywords, node, method=method, label=label, layer=layer)

        return interpreter.each(chosen, on)
    op = find_op(name)
    if op is None or not op.measured:
        return _unmeasured(interpreter, op, args, node)
    call = OpCall(op, args, keywords, node, label or name, layer, method)
    target = call.argument(call.effect.writes) if op.writes else None
    for tensor in call.inputs:
        _note_read(interpreter, tensor, tensor is target)
    trained = [tensor for tensor in call.inputs if tensor.held]
    if trained:
        interpreter.note("forward", trained, node)
    if isinstance(target, Tensor):
        return _write(interpreter, call, target)
    return new_results(interpreter, call)


def _note_read(interpreter: Interpreter, tensor: Tensor, is_target: bool) -> None:
    """An operation reads a tensor: is it still what the program takes it for?"""
    if tensor.read is not None:
        check_kept_gradient(interpreter, tensor)
    if tensor.storage.overwritten:
        check_overwritten(interpreter, tensor)
    if is_target:
        return
    if tensor.storage.read is not None:
        tensor.storage.read = interpreter.tape.tick()
    if interpreter.grad == "on":
        if tensor.family.since > tensor.since:
            _check_outdated(interpreter, tensor)
        elif tensor.view in _LEFT_BEHIND and tensor.storage.writes:
            _check_left_behind(interpreter, tensor)
        refresh(tensor)


def _check_outdated(interpreter: Interpreter, view: Tensor) -> None:
    """Some views cannot be given the history that a write to their base has made: PyTorch refuses to read them."""
    kind = {"multi": "multi-view", "nograd": "nograd-view"}.get(view.view or "")
    write = view.family.node
    if kind is not None and write is not None and view.family.grad and compatible(write.path, interpreter.tape.path):
        sure = view.certain and view.known and view.family.sure
        interpreter.tape.hits.append(Hit(kind, None, write.place, sure, group=write.group))


_LEFT_BEHIND = {"multi": "multi-view", "custom": "custom-view"}


def _check_left_behind(interpreter: Interpreter, view: Tensor) -> None:
    """A view that cannot be given another history is read after a write to its base: one of several that an optimizer
    has stepped, or the result of a custom Function, whose history is its own. PyTorch refuses that, too."""
    later = [write for write in view.storage.writes if write.tracked and write.time > view.since]
    later = [write for write in later if compatible(write.path, interpreter.tape.path)]
    if later and requires_grad(view):
        sure = later[-1].certain and view.certain and view.view_sure and view.known
        kind = _LEFT_BEHIND[view.view or ""]
        interpreter.tape.hits.append(Hit(kind, later[-1], later[-1].place, sure, detail="read later"))


def _write(interpreter: Interpreter, call: OpCall, target: Tensor) -> Value:
    """An operation that writes its target, and returns it."""
    op, node = call.op, call.node
    check_write(interpreter, target, node, call.label, [tensor for tensor in call.inputs if tensor is not target], op)
    others = list(call.inputs)
    others.remove(target)
    check_overlap(interpreter, target, target.region, op.name, others, node)
    if shapes.is_elementwise(op.name) and not shapes.fits_into(target.shape, [other.shape for other in others]):
        in_data = any_grad(call.inputs) is False
        interpreter.hit("shape-dtype", node, target.known and target.certain, "shape of data" if in_data else "shape")
    grad = result_grad(interpreter, call)
    graph_node = record(interpreter, call, grad)
    write = interpreter.tape.write(target, interpreter.place(node), call.label, target=target_text(node))
    note_overwritten(target, write)
    if layouts.turns_in_place(op.name):
        target.packed = False
    if grad is not False:
        rebase(interpreter, target, graph_node, grad)
    saved = call.effect.results.get("0", call.effect.results.get("*", False))
    if saved is not False and graph_node is not None:
        graph_node.saves.append(saved_result(interpreter, target, bool(saved)))
    return target


def _unmeasured(interpreter: Interpreter, op: ops.Op | None, args: Args, node: ast.AST) -> Value:
    if op is not None and op.writes and args and isinstance(args[0], Tensor):
        check_write(interpreter, args[0], node, op.name, [])
        interpreter.tape.write(args[0], interpreter.place(node), op.name)
        return args[0]
    return UNKNOWN


def augmented(interpreter: Interpreter, node: ast.AugAssign, old: Tensor, value: Value) -> Value:
    """`x += v` on a tensor."""
    if isinstance(node.op, ast.MatMult):
        return binary(interpreter, node.op, old, value, node)
    symbol = f"{SYMBOLS[type(node.op)]}="
    if not old.known and not isinstance(value, Tensor):
        interpreter.tape.write(old, interpreter.place(node), symbol, target=ast.unparse(node.target))
        return old
    return run_op(interpreter, AUGMENTED[symbol], [old, value], {}, node, method=True,
                  label=symbol)  # fmt: skip


def binary(interpreter: Interpreter, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    """`left op right` with a tensor on one side."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        known = left if isinstance(left, Tensor) else right
        assert isinstance(known, Tensor)
        if not known.known:
            return UNKNOWN
    result = _binary(interpreter, op, left, right, node)
    if isinstance(result, Tensor) and (isinstance(left, Plain) or isinstance(right, Plain)):
        result.known = any(isinstance(value, Tensor) and value.known for value in (left, right))
    return result


def _binary(interpreter: Interpreter, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    name = OPERATORS[SYMBOLS[type(op)]]
    if isinstance(left, Tensor) or not isinstance(right, Tensor):
        return run_op(interpreter, name, [left, right], {}, node)
    turned = REFLECTED.get(name, name)
    found = find_op(turned)
    if turned != name and (found is None or not found.measured):
        return run_op(interpreter, name, [left, right], {}, node)
    return run_op(interpreter, turned, [right, left], {}, node)


def reduced(interpreter: Interpreter, name: str, args: Args, keywords: Keywords, node: ast.AST, method: bool) -> Value:
    """`max`, `min`, `sort`, `topk`: values and indices where a dim is given, else values alone."""
    result = run_op(interpreter, name, args, keywords, node, method=method)
    with_dim = "dim" in keywords or has(name, "gives_indices")
    with_dim = with_dim or (len(args) > 1 and not isinstance(args[1], Tensor))
    if isinstance(result, Items):
        values: Value = result.items[0] if result.items else UNKNOWN
    else:
        values = result
    if not with_dim:
        return values
    indices = fresh(interpreter, False, "int")
    indices.packed = values.packed if isinstance(values, Tensor) else None
    return Items([values, indices], "tuple")
