"""Operations by the op table: what each saves, shares and writes goes into the books."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Any

from outplace.knowledge import ops
from outplace.knowledge.names import AUGMENTED, OPERATORS, SYMBOLS
from outplace.knowledge.ops import Arg
from outplace.knowledge.traits import has, shape_only
from outplace.source.overlaps import RESHAPED, Region
from outplace.source.tape import Hit, Node, Save, compatible
from outplace.source.torch_model import dtypes, layouts, regions, shapes
from outplace.source.torch_model.shared import check_overwritten, note_overwritten
from outplace.source.torch_model.tensors import (
    any_grad,
    as_argument,
    fresh,
    node_of,
    refresh,
    requires_grad,
    tensors_in,
)
from outplace.source.torch_model.writing import check_kept_gradient, check_overlap, check_write, rebase, target_text
from outplace.source.values import UNKNOWN, Choice, Const, Items, Layer, Plain, Tensor, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


@cache
def find_op(name: str) -> ops.Op | None:
    """The op table entry of that name, looked up once."""
    return ops.lookup(name)


def run_op(
    interpreter: Interpreter,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    *,
    method: bool = False,
    label: str | None = None,
    layer: Layer | None = None,
) -> Value:
    """Runs an operation of the op table: what it saves, shares and writes goes into the books."""
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
    given = [as_argument(value) for value in args]
    named = {key: as_argument(value) for key, value in keywords.items() if key not in ("out", "inplace")}
    settings = {"training": layer.training, **layer.options} if layer is not None else None
    state = Arg(True, any_grad(layer.state.values())) if layer is not None and layer.state else ops.TENSOR
    effect = _effect(op, given, named, method, settings, state)
    asked = args[:1] if "other" in shape_only(op.name) else (*args, *keywords.values())
    inputs = [tensor for value in asked for tensor in tensors_in(value)]
    if layer is not None:
        inputs.extend(layer.state.values())
    target = _pick(effect.writes, args, keywords) if op.writes else None
    for tensor in inputs:
        if tensor.read is not None:
            check_kept_gradient(interpreter, tensor)
        if tensor.storage.overwritten:
            check_overwritten(interpreter, tensor)
        if tensor.storage.read is not None and tensor is not target:
            tensor.storage.read = interpreter.tape.tick()
        if tensor is not target and interpreter.grad == "on":
            if tensor.family.since > tensor.since:
                _check_outdated(interpreter, tensor)
            elif tensor.view in _LEFT_BEHIND and tensor.storage.writes:
                _check_left_behind(interpreter, tensor)
            refresh(tensor)
    trained = [tensor for tensor in inputs if tensor.held]
    if trained:
        interpreter.note("forward", trained, node)
    if isinstance(target, Tensor):
        return _write_op(interpreter, op, effect, target, args, keywords, node, label or name, inputs, layer)
    return _new_results(interpreter, op, effect, args, keywords, node, label or name, inputs, layer)


def _check_outdated(interpreter: Interpreter, view: Tensor) -> None:
    """Some views cannot be given the history that a write to their base has made: PyTorch refuses to read them."""
    kind = {"multi": "multi-view", "nograd": "nograd-view"}.get(view.view or "")
    write = view.family.node
    if kind is not None and write is not None and view.family.grad and compatible(write.path, interpreter.tape.path):
        interpreter.tape.hits.append(Hit(kind, None, write.place, view.certain and view.known and view.family.sure))


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


_effects: dict[Any, ops.Effect] = {}


def _effect(
    op: ops.Op, args: list[Arg], keywords: dict[str, Arg], method: bool, settings: dict[str, Any] | None, state: Arg
) -> ops.Effect:
    """The op table's answer, remembered: programs ask the same few hundred questions again and again."""
    key = (
        op.name,
        tuple(map(_asked, args)),
        tuple((name, _asked(arg)) for name, arg in keywords.items()) if keywords else None,
        method,
        tuple(settings.items()) if settings else None,
        state.grad,
    )
    try:
        found = _effects.get(key)
    except TypeError:  # an option that cannot be a key
        return ops.effect(op, args, keywords, method=method, options=settings, state=state)
    if found is None:
        found = _effects[key] = ops.effect(op, args, keywords, method=method, options=settings, state=state)
    return found


def _asked(arg: Arg) -> Any:
    return arg.tensor, arg.grad, arg.value if isinstance(arg.value, str | bool | type(None)) else type(arg.value)


def _pick(
    key: str | int | None, args: list[Value], keywords: dict[str, Value], layer: Layer | None = None
) -> Value | None:
    if isinstance(key, int):
        return args[key] if key < len(args) else None
    if key is None:
        return None
    return keywords.get(key) or (layer.state.get(key) if layer is not None else None)


def _unmeasured(interpreter: Interpreter, op: ops.Op | None, args: list[Value], node: ast.AST) -> Value:
    if op is not None and op.writes and args and isinstance(args[0], Tensor):
        check_write(interpreter, args[0], node, op.name, [])
        interpreter.tape.write(args[0], interpreter.place(node), op.name)
        return args[0]
    return UNKNOWN


def _result_grad(interpreter: Interpreter, op: ops.Op, inputs: list[Tensor]) -> bool | None:
    if interpreter.grad in ("off", "inference") or not op.differentiable:
        return False
    found = any_grad(inputs)
    return None if found and interpreter.grad == "unknown" else found


def _record(
    interpreter: Interpreter,
    op: ops.Op,
    effect: ops.Effect,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    label: str,
    inputs: list[Tensor],
    layer: Layer | None,
    grad: bool | None,
) -> Node | None:
    """The node that autograd makes, with the inputs it saves; None where nothing is recorded."""
    if not grad:
        return None  # also where it is not known: nothing can be concluded from a graph that may not be there
    made = interpreter.record(_node_name(op, label), node)
    made.partial = not all(map(_is_followed, (*args, *keywords.values())))
    for tensor in inputs:
        before = node_of(tensor)
        if before is not None:
            made.inputs.append(before)
        if tensor.leaf and requires_grad(tensor):
            made.leaves.append(tensor)
    saved = {} if _is_mean(op, args, keywords, layer) else effect.saved
    for key, sure in saved.items():
        if key == effect.writes and op.copies is not None:
            continue  # it keeps a copy of its target; another operand in the same memory (`h *= h`) is kept as it is
        value = _pick(key, args, keywords, layer)
        for tensor in tensors_in(value) if value is not None else ():
            if tensor.inference and interpreter.grad == "on":
                interpreter.hit("inference", node, bool(sure) and not tensor.storage.refused, "saved")
            if op.name == "einsum" and any_grad(other for other in inputs if other is not tensor) is False:
                continue
            sure = sure or (op.name == "matmul" and _is_plain_product(inputs))
            if sure is None and interpreter.assumes and not any(when.some for when in op.saves.values()):
                continue  # a hypothesis is no reason to guess further
            surely = bool(sure) and (op.name not in _FOLDING or _folds_without_copy(tensor, inputs))
            parameter_like = tensor.leaf and tensor.requires_grad is True
            certain, anchor = surely and tensor.certain, tensor.anchor if surely else None
            itself = tensor if _keeps_itself(op, key, tensor, inputs) else None
            made.saves.append(Save(tensor.storage, made.time, _role(op, key), certain, parameter_like, anchor, itself))
    if layer is not None and layer.kind in _RECURRENT:
        _keep_state(made, layer, args, keywords)
    return made


def _is_followed(value: Value) -> bool:
    """Is it known which graph comes with an argument?"""
    if isinstance(value, Tensor):
        return requires_grad(value) is not None
    if isinstance(value, Items):
        return all(map(_is_followed, (*value.items, *([value.rest] if value.rest is not None else []))))
    return not isinstance(value, Unknown | Choice)


_ADAPTIVE = {"nn.AdaptiveAvgPool2d", "nn.AdaptiveAvgPool3d"}
_ADAPTIVE |= {"nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d"}


def _is_mean(op: ops.Op, args: list[Value], keywords: dict[str, Value], layer: Layer | None) -> bool:
    """A pooling to one element is computed as a mean, which keeps nothing."""
    if op.name not in _ADAPTIVE:
        return False
    if layer is not None:
        return layer.sizes[0] == 1 or layer.options.get("output_size") == 1
    size = args[1] if len(args) > 1 else keywords.get("output_size", UNKNOWN)
    sizes = size.items if isinstance(size, Items) else [size]
    return all(isinstance(item, Const) and item.value == 1 for item in sizes)


def _node_name(op: ops.Op, label: str) -> str:
    """The node that keeps something: `a @ b` also makes nodes that only turn or fold its operands."""
    return next((name for name in op.nodes if not name.startswith(("View", "UnsafeView", "Permute"))), label)


_RECURRENT = {"nn.LSTM", "nn.GRU", "nn.RNN"}


def _keep_state(made: Node, layer: Layer, args: list[Value], keywords: dict[str, Value]) -> None:
    """They keep the state that they begin with; and of a batch, one step, which needs no copy to be turned."""
    state = args[1] if len(args) > 1 else keywords.get("hx", UNKNOWN)
    made.saves += [Save(tensor.storage, made.time, "hx", tensor.certain) for tensor in tensors_in(state)]
    given = args[0] if args else None
    one_step = isinstance(given, Tensor) and given.shape is not None and given.shape[1:2] == (1,)
    if isinstance(given, Tensor) and one_step and layer.options.get("batch_first") is True:
        made.saves.append(Save(given.storage, made.time, "input", given.certain))


_FOLDING = {"matmul", "nn.functional.linear", "nn.Linear", "einsum", "tensordot", "inner"}
"""They reshape their operands first, so what they keep is a copy where that cannot be a view."""


_KEEPING_VIEWS = {"einsum", "tensordot", "inner", "outer", "ger", "nn.functional.max_pool1d", "nn.MaxPool1d"}
"""They keep views of their operands, whatever these are."""
_COMPOSED = ("LSTM", "GRU", "RNN", "Attention", "Transformer")


def _keeps_itself(op: ops.Op, key: str | int, tensor: Tensor, inputs: list[Tensor]) -> bool:
    """Does the node keep this very tensor? `linear` keeps its weight turned, and folds an input that is no matrix."""
    if op.name == "matmul":
        return _is_plain_product(inputs)
    if op.name in ("nn.functional.linear", "nn.Linear"):
        return key not in ("weight", 1) and tensor.shape is not None and len(tensor.shape) == 2
    return op.name not in _KEEPING_VIEWS and not any(part in op.name for part in _COMPOSED)


def _is_plain_product(inputs: list[Tensor]) -> bool:
    """Matrices and vectors are kept as they are; what has more dimensions may be copied first."""
    return {None if other.shape is None else len(other.shape) for other in inputs} <= {1, 2}


def _folds_without_copy(tensor: Tensor, inputs: list[Tensor]) -> bool:
    ranks = {None if other.shape is None else len(other.shape) for other in inputs}
    return tensor.packed is not False or ranks <= {1, 2} or ranks == {3}


def _lay_out(
    interpreter: Interpreter,
    result: Tensor,
    op: ops.Op,
    number: str,
    args: list[Value],
    keywords: dict[str, Value],
    layer: Layer | None,
) -> None:
    """Its shape, and how it lies in memory."""
    source = source_of(args)
    if number == "*":
        name = op.name.rpartition(".")[2]
        result.shape = shapes.parts_shape(source.shape, name, args, keywords) if source is not None else None
    else:
        result.shape = shapes.result_shape(op.name, args, keywords, layer) if number == "0" else None
    if source is not None and result.storage is source.storage:
        result.packed = layouts.of_view(op.name, source)
    else:
        given = [value for value in (*args, *keywords.values()) if isinstance(value, Tensor)]
        result.packed = layouts.of_result(op.name, given)
    if interpreter.reordered:
        result.packed = result.packed and None
    if op.expanded and source is not None:
        result.expanded = shapes.is_expanded(source.shape, result.shape) is not False
        result.repeated = shapes.repeated(source.shape, result.shape)
    else:
        result.expanded = result.expanded and not layouts.copies_unless_packed(op.name)


def source_of(args: list[Value]) -> Tensor | None:
    """The first tensor among the arguments."""
    return next((value for value in args if isinstance(value, Tensor)), None)


def _role(op: ops.Op, key: str | int) -> str:
    if op.name == "einsum":
        return "input"
    if isinstance(key, int) and key < len(op.params):
        return op.params[key].split("|")[0].strip("*")
    return str(key)


_PER_SAMPLE = {"nn.functional.ctc_loss", "nn.CTCLoss"}
"""They keep the loss of each sample, and give it out only where it is not reduced."""


def _hands_out_samples(args: list[Value], keywords: dict[str, Value], layer: Layer | None) -> bool:
    if layer is not None:
        return layer.options.get("reduction", "mean") not in ("mean", "sum")
    reduction = keywords.get("reduction", args[5] if len(args) > 5 else Const("mean"))
    return not (isinstance(reduction, Const) and reduction.value in ("mean", "sum"))


def _new_results(
    interpreter: Interpreter,
    op: ops.Op,
    effect: ops.Effect,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    label: str,
    inputs: list[Tensor],
    layer: Layer | None,
) -> Value:
    grad = _result_grad(interpreter, op, inputs)
    made = _record(interpreter, op, effect, args, keywords, node, label, inputs, layer, grad)
    numbers = {out for out, *_ in effect.shares} | set(effect.results)
    results = _several(op, numbers)
    outputs: list[Value] = []
    for number in results:
        result = _shared_result(interpreter, op.name, effect, number, args, keywords, node) or fresh(interpreter)
        if not (result.view is None and result.leaf):
            result.requires_grad = grad if result.view != "detached" else False
            result.node = made if result.view != "detached" else None
            result.since = interpreter.tape.tick()
        result.dtype = dtypes.of_result(op, inputs, args, keywords)
        if result.dtype in ("int", "bool"):
            result.requires_grad, result.node = False, None
        result.known = True
        if result.view is None or result is not source_of(args):
            _lay_out(interpreter, result, op, number, args, keywords, layer)
        saved = effect.results.get(number, effect.results.get("*", False))
        if op.name in _PER_SAMPLE and not _hands_out_samples(args, keywords, layer):
            saved = False
        if saved is not False and made is not None:
            made.saves.append(_kept_result(interpreter, result, bool(saved)))
        if made is not None and result.view is None:
            made.outputs.append(result.storage)
            result.family.grad = grad
        outputs.append(result)
    if not results:
        return UNKNOWN
    if results == ["0"]:
        return outputs[0]
    if results == ["*"]:
        siblings = [_sibling(interpreter, outputs[0]) for _ in range(3)]
        if len(inputs) == 1:
            regions.number_parts([outputs[0], *siblings])
        return Items([outputs[0], *siblings], "tuple", rest=outputs[0])
    return Items(outputs, "tuple")


def _kept_result(interpreter: Interpreter, result: Tensor, surely: bool) -> Save:
    now, anchor = interpreter.tape.tick(), result.anchor if surely else None
    return Save(result.storage, now, "result", surely and result.certain, anchor=anchor)


def _several(op: ops.Op, numbers: set[str]) -> list[str]:
    """Which outputs there are: "*" stands for any number of like ones."""
    if "*" in numbers:
        return ["*"]
    highest = max((int(number) for number in numbers if number.isdigit()), default=0)
    return [str(number) for number in range(highest + 1)]


def _sibling(interpreter: Interpreter, value: Value) -> Value:
    if not isinstance(value, Tensor):
        return value
    other = Tensor(value.storage, value.requires_grad, value.node, dtype=value.dtype, of=value)
    other.since, other.view, other.region = value.since, value.view, None
    other.certain, other.anchor, other.parts = value.certain, value.anchor, value.parts
    other.shape, other.packed, other.view_sure = value.shape, value.packed, value.view_sure
    return other


def _shared_result(
    interpreter: Interpreter,
    op_name: str,
    effect: ops.Effect,
    number: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Tensor | None:
    """The output as a view, or the same object, of an argument."""
    for out, key, how, sure in effect.shares:
        source = _pick(key, args, keywords)
        if out not in (number, "*") or not isinstance(source, Tensor):
            continue
        if source.packed and layouts.copies_unless_packed(op_name) and not interpreter.reordered:
            sure = True
        if how == "same" and sure:
            return source
        result = Tensor(source.storage, dtype=source.dtype, of=source if how not in ("detached", "untracked") else None)
        result.certain, result.anchor = source.certain and bool(sure), source.anchor if sure else object()
        result.view = _view_kind(interpreter, how, source)
        result.view_sure = bool(sure) and (result.view != source.view or source.view_sure)
        result.expanded = source.expanded
        result.untracked = how == "untracked" or source.untracked
        result.inference = source.inference
        result.gradient = source.gradient
        result.region, result.parts = _region(op_name, how, source), source.parts
        return result
    return None


def _region(op_name: str, how: str, source: Tensor) -> Region | None:
    if layouts.turns(op_name):
        return regions.turned(source)
    if how in ("detached", "untracked"):
        return source.region
    return (RESHAPED,) if source.region == () and layouts.keeps_order(op_name) else None


def _view_kind(interpreter: Interpreter, how: str, source: Tensor) -> str:
    if how in ("detached", "untracked"):
        return "detached"
    if source.view in ("multi", "nograd", "custom"):
        return source.view
    if how == "multi":
        return "multi"
    return "nograd" if interpreter.grad in ("off", "inference") else "view"


def _write_op(
    interpreter: Interpreter,
    op: ops.Op,
    effect: ops.Effect,
    target: Tensor,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    label: str,
    inputs: list[Tensor],
    layer: Layer | None,
) -> Value:
    check_write(interpreter, target, node, label, [tensor for tensor in inputs if tensor is not target], op)
    others = list(inputs)
    others.remove(target)
    check_overlap(interpreter, target, target.region, op.name, others, node)
    if shapes.is_elementwise(op.name) and not shapes.fits_into(target.shape, [other.shape for other in others]):
        in_data = any_grad(inputs) is False
        interpreter.hit("shape-dtype", node, target.known and target.certain, "shape of data" if in_data else "shape")
    grad = _result_grad(interpreter, op, inputs)
    made = _record(interpreter, op, effect, args, keywords, node, label, inputs, layer, grad)
    write = interpreter.tape.write(target, interpreter.place(node), label, target=target_text(node))
    note_overwritten(target, write)
    if layouts.turns_in_place(op.name):
        target.packed = False
    if grad is not False:
        rebase(interpreter, target, made, grad)
    saved = effect.results.get("0", effect.results.get("*", False))
    if saved is not False and made is not None:
        made.saves.append(_kept_result(interpreter, target, bool(saved)))
    return target


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
    made = _binary(interpreter, op, left, right, node)
    if isinstance(made, Tensor) and (isinstance(left, Plain) or isinstance(right, Plain)):
        made.known = any(isinstance(value, Tensor) and value.known for value in (left, right))
    return made


def _binary(interpreter: Interpreter, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    name = OPERATORS[SYMBOLS[type(op)]]
    if isinstance(right, Tensor) and not isinstance(left, Tensor):
        name = {"sub": "rsub", "div": "__rdiv__", "pow": "__rpow__"}.get(name, name)
        if name in ("__rdiv__", "__rpow__", "rsub"):
            found = find_op(name)
            if found is None or not found.measured:
                name = OPERATORS[SYMBOLS[type(op)]]
                return run_op(interpreter, name, [left, right], {}, node)
            return run_op(interpreter, name, [right, left], {}, node)
        return run_op(interpreter, name, [right, left], {}, node)
    return run_op(interpreter, name, [left, right], {}, node)


def reduced(
    interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST, method: bool
) -> Value:
    """`max`, `min`, `sort`, `topk`: values and indices where a dim is given, else values alone."""
    made = run_op(interpreter, name, args, keywords, node, method=method)
    with_dim = "dim" in keywords or has(name, "gives_indices")
    with_dim = with_dim or (len(args) > 1 and not isinstance(args[1], Tensor))
    if isinstance(made, Items):
        values: Value = made.items[0] if made.items else UNKNOWN
    else:
        values = made
    if not with_dim:
        return values
    indices = fresh(interpreter, False, "int")
    indices.packed = values.packed if isinstance(values, Tensor) else None
    return Items([values, indices], "tuple")
