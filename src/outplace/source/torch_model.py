"""What torch does with abstract tensors: operations by the op table, modules by class, optimizers, grad modes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from outplace.knowledge import ops
from outplace.knowledge.ops import Arg
from outplace.source import python_model
from outplace.source.tape import Node, Save, Storage, Write
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Const,
    Dictionary,
    Function,
    GradMode,
    Instance,
    Items,
    Layer,
    Optimizer,
    Plain,
    StateDict,
    Tensor,
    Torch,
    Unknown,
    Value,
    join,
    options,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

GRAD_MODES = {
    "torch.no_grad": "off",
    "torch.autograd.no_grad": "off",
    "torch.autograd.grad_mode.no_grad": "off",
    "torch.inference_mode": "inference",
    "torch.enable_grad": "on",
    "torch.autograd.enable_grad": "on",
}

_FACTORIES = {
    "tensor", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "linspace", "eye", "randint", "randperm",
    "as_tensor", "from_numpy", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like",
    "randint_like", "normal", "bernoulli", "multinomial", "logspace", "tril_indices", "triu_indices", "empty_strided",
    "Tensor", "FloatTensor", "LongTensor", "BoolTensor", "IntTensor", "DoubleTensor", "scalar_tensor", "cartesian_prod",
    "hann_window", "hamming_window", "complex", "polar", "frombuffer", "asarray", "sparse_coo_tensor", "one_hot",
}  # fmt: skip
_INT_FACTORIES = {"randint", "randperm", "LongTensor", "IntTensor", "multinomial", "tril_indices", "triu_indices", "one_hot"}
_NEW_METHODS = {"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "new"}
_INT_DTYPES = {"long", "int", "int64", "int32", "int16", "int8", "uint8", "short", "bool"}
_TO_INT = {"long", "int", "short", "char", "byte", "bool"}
_INT_RESULTS = {"argmax", "argmin", "argsort", "nonzero", "eq", "ne", "lt", "gt", "le", "ge", "isnan", "isinf", "logical_and",
                "logical_or", "logical_not", "searchsorted", "bucketize", "isfinite", "multinomial"}  # fmt: skip
_FLOAT_ONLY = {"div", "true_divide", "divide", "sigmoid", "exp", "log", "sqrt", "tanh", "sin", "cos", "normal", "uniform"}
_MEMORY_FILLS = {"fill_", "zero_", "masked_fill_", "index_put_"}
_COMPACTING = {"contiguous", "reshape", "flatten", "ravel", "reshape_as"}
"""They copy what is expanded."""
_CONTAINERS = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.ParameterList",
               "torch.nn.ParameterDict"}  # fmt: skip
_PLAIN_METHODS = {"item", "tolist", "size", "dim", "numel", "element_size", "is_floating_point", "stride", "storage_offset",
                  "data_ptr", "type", "get_device", "is_contiguous", "nelement", "__len__", "ndimension"}  # fmt: skip
_PLAIN_ATTRIBUTES = {"shape", "dtype", "device", "ndim", "is_cuda", "layout", "itemsize", "nbytes", "names"}

_OPERATOR_OPS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide", ast.Mod: "remainder",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift", ast.RShift: "bitwise_right_shift",
}  # fmt: skip
_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/=", ast.FloorDiv: "//=", ast.Mod: "%=", ast.Pow: "**=",
    ast.BitAnd: "&=", ast.BitOr: "|=", ast.BitXor: "^=", ast.LShift: "<<=", ast.RShift: ">>=",
}  # fmt: skip


# -- tensors ----------------------------------------------------------------------------------------------------------------


def fresh(
    interpreter: Interpreter, requires_grad: bool | None = False, dtype: str | None = None, leaf: bool = False
) -> Tensor:
    """A tensor in memory of its own."""
    made = Tensor(Storage(), requires_grad, leaf=leaf, dtype=dtype)
    made.since = interpreter.tape.tick()
    made.inference = interpreter.grad == "inference"
    if leaf and requires_grad:
        made.storage.leaf = made
    return made


def parameter(interpreter: Interpreter, requires_grad: bool | None = True) -> Tensor:
    """A parameter of a module."""
    made = fresh(interpreter, requires_grad, "float", leaf=True)
    made.parameter = True
    made.inference = False
    return made


def copied(interpreter: Interpreter, tensor: Tensor) -> Tensor:
    """A deep copy: a leaf of its own with the same flags."""
    made = fresh(interpreter, tensor.requires_grad if tensor.leaf else False, tensor.dtype, leaf=tensor.leaf)
    made.parameter = tensor.parameter
    return made


def requires_grad(tensor: Tensor) -> bool | None:
    """Does it require grad now? A recorded write into its storage makes it so."""
    if tensor.storage.since > tensor.since and tensor.storage.node is not None and not tensor.untracked:
        return tensor.storage.tensor_grad or tensor.requires_grad
    return tensor.requires_grad


def node_of(tensor: Tensor) -> Node | None:
    """The node that made its present value."""
    if tensor.storage.since > tensor.since and tensor.storage.node is not None:
        return tensor.storage.node
    return tensor.node


def _argument(value: Value) -> Arg:
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
    if isinstance(value, Plain | Bound):
        return Arg(False, False)
    return Arg(None, None)


def tensors_in(value: Value) -> Iterator[Tensor]:
    for option in options(value):
        if isinstance(option, Tensor):
            yield option
        elif isinstance(option, Items):
            for item in (*option.items, *([option.rest] if option.rest is not None else [])):
                yield from tensors_in(item)
        elif isinstance(option, Dictionary):
            for item in option.items.values():
                yield from tensors_in(item)


@cache
def _lookup(name: str) -> ops.Op | None:
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
        made = []
        for option in chosen.options:
            swapped = [option if value is chosen else value for value in args]
            swapped_keywords = {key: option if value is chosen else value for key, value in keywords.items()}
            made.append(run_op(interpreter, name, swapped, swapped_keywords, node, method=method, label=label, layer=layer))
        return join(made)
    op = _lookup(name)
    if op is None or not op.measured:
        return _unmeasured(interpreter, op, args, node)
    given = [_argument(value) for value in args]
    named = {key: _argument(value) for key, value in keywords.items() if key not in ("out", "inplace")}
    settings = {"training": layer.training, **layer.options} if layer is not None else None
    state = Arg(True, _any_grad(layer.state.values())) if layer is not None and layer.state else ops.TENSOR
    effect = _effect(op, given, named, method, settings, state)
    inputs = [tensor for value in (*args, *keywords.values()) for tensor in tensors_in(value)]
    if layer is not None:
        inputs.extend(layer.state.values())
    target = _pick(effect.writes, args, keywords) if op.writes else None
    if isinstance(target, Tensor):
        return _write_op(interpreter, op, effect, target, args, keywords, node, label or name, inputs, layer)
    return _new_results(interpreter, op, effect, args, keywords, node, label or name, inputs, layer)


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


def _any_grad(tensors: Any) -> bool | None:
    grads = [requires_grad(tensor) for tensor in tensors]
    return True if True in grads else None if None in grads else False


def _pick(key: str | int | None, args: list[Value], keywords: dict[str, Value], layer: Layer | None = None) -> Value | None:
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
    found = _any_grad(inputs)
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
    made = Node(op.nodes[0] if op.nodes else label, interpreter.place(node), interpreter.tape.tick(), interpreter.tape.path)
    for tensor in inputs:
        before = node_of(tensor)
        if before is not None:
            made.inputs.append(before)
        if tensor.leaf and requires_grad(tensor):
            made.leaves.append(tensor)
    for key, sure in effect.saved.items():
        value = _pick(key, args, keywords, layer)
        for tensor in tensors_in(value) if value is not None else ():
            if tensor.inference and interpreter.grad == "on":
                interpreter.hit("inference", node, bool(sure), "saved")
            saved_as = _role(op, key)
            parameter_like = tensor.leaf and tensor.requires_grad is True
            made.saves.append(Save(tensor.storage, made.time, saved_as, bool(sure) and tensor.certain, parameter_like))
    return made


def _role(op: ops.Op, key: str | int) -> str:
    if isinstance(key, int) and key < len(op.params):
        return op.params[key].split("|")[0].strip("*")
    return str(key)


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
        result = _shared_result(interpreter, effect, number, args, keywords, node) or fresh(interpreter)
        if not (result.view is None and result.leaf):
            result.requires_grad = grad if result.view != "detached" else False
            result.node = made if result.view != "detached" else None
            result.since = interpreter.tape.tick()
        result.dtype = _result_dtype(op, inputs, args)
        if result.dtype in ("int", "bool"):
            result.requires_grad, result.node = False, None
        result.known = True
        result.expanded = (result.expanded and op.name not in _COMPACTING) or op.expanded
        saved = effect.results.get(number, effect.results.get("*", False))
        if saved is not False and made is not None:
            made.saves.append(Save(result.storage, interpreter.tape.tick(), "result", bool(saved) and result.certain))
        if made is not None and result.view is None:
            made.outputs.append(result.storage)
        outputs.append(result)
    if not results:
        return UNKNOWN
    if results == ["0"]:
        return outputs[0]
    if results == ["*"]:
        return Items([outputs[0], *[_sibling(interpreter, outputs[0])] * 3], "tuple", rest=outputs[0])
    return Items(outputs, "tuple")


def _several(op: ops.Op, numbers: set[str]) -> list[str]:
    """Which outputs there are: "*" stands for any number of like ones."""
    if "*" in numbers:
        return ["*"]
    highest = max((int(number) for number in numbers if number.isdigit()), default=0)
    return [str(number) for number in range(highest + 1)]


def _sibling(interpreter: Interpreter, value: Value) -> Value:
    if not isinstance(value, Tensor):
        return value
    other = Tensor(value.storage, value.requires_grad, value.node, dtype=value.dtype)
    other.since, other.view, other.certain, other.whole = value.since, value.view, value.certain, False
    return other


def _shared_result(
    interpreter: Interpreter, effect: ops.Effect, number: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Tensor | None:
    """The output as a view, or the same object, of an argument."""
    for out, key, how, sure in effect.shares:
        source = _pick(key, args, keywords)
        if out not in (number, "*") or not isinstance(source, Tensor):
            continue
        if how == "same" and sure:
            return source
        result = Tensor(source.storage, dtype=source.dtype)
        result.certain = source.certain and bool(sure)
        result.made = node
        result.view = _view_kind(interpreter, how, source)
        result.expanded = source.expanded
        result.untracked = how == "untracked" or source.untracked
        result.inference = source.inference
        result.gradient = source.gradient
        result.whole = False
        return result
    return None


def _view_kind(interpreter: Interpreter, how: str, source: Tensor) -> str:
    if how in ("detached", "untracked"):
        return "detached"
    if source.view in ("multi", "nograd", "custom"):
        return source.view
    if how == "multi":
        return "multi"
    return "nograd" if interpreter.grad in ("off", "inference") else "view"


def _result_dtype(op: ops.Op, inputs: list[Tensor], args: list[Value]) -> str | None:
    base = op.name.rpartition(".")[2].rstrip("_")
    if base in _INT_RESULTS:
        return "bool" if base in ("eq", "ne", "lt", "gt", "le", "ge", "isnan") else "int"
    if base in _FLOAT_ONLY:
        return "float" if base not in ("div", "divide") else None
    kinds = {tensor.dtype for tensor in inputs}
    if base in ("add", "sub", "mul", "rsub", "pow") and any(not isinstance(value, Tensor) for value in args):
        if any(isinstance(value, Const) and isinstance(value.value, float) for value in args):
            return "float"
        if not all(isinstance(value, Tensor | Const) for value in args):
            return "float" if kinds == {"float"} else None
    return kinds.pop() if len(kinds) == 1 else ("float" if "float" in kinds else None)


# -- writes -----------------------------------------------------------------------------------------------------------------


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
    grad = _result_grad(interpreter, op, inputs)
    made = _record(interpreter, op, effect, args, keywords, node, label, inputs, layer, grad)
    if made is not None and op.copies is not None:
        made.saves = [save for save in made.saves if save.storage is not target.storage]
    interpreter.tape.write(target, interpreter.place(node), label, target=_target_text(node))
    if grad is not False:
        rebase(interpreter, target, made, grad)
    saved = effect.results.get("0", effect.results.get("*", False))
    if saved is not False and made is not None:
        made.saves.append(Save(target.storage, interpreter.tape.tick(), "result", bool(saved) and target.certain))
    return target


def rebase(interpreter: Interpreter, target: Tensor, node: Node | None, grad: bool | None) -> None:
    """A recorded write: the tensor, its base and all views now depend on the new node."""
    if target.leaf and target.requires_grad:
        return  # PyTorch has refused it
    if node is not None:
        for before in (target.node, target.storage.node):
            if before is not None and before not in node.inputs:
                node.inputs.append(before)
    target.storage.node = node
    target.storage.tensor_grad = grad
    target.storage.since = interpreter.tape.tick()
    target.requires_grad, target.node, target.leaf = grad, node, False
    target.since = target.storage.since


def _target_text(node: ast.AST) -> str:
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node.target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        return ast.unparse(node.func.value)
    if isinstance(node, ast.Call) and node.args:
        return ast.unparse(node.args[0])
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return ast.unparse(node.targets[0].value)
    return ""


def check_write(
    interpreter: Interpreter,
    target: Tensor,
    node: ast.AST,
    operation: str,
    others: list[Tensor],
    op: ops.Op | None = None,
) -> None:
    """The kinds that PyTorch refuses where the operation stands."""
    sure = target.certain and target.known
    if target.gradient:
        interpreter.hit("silent-other", node, sure, "gradient")
    if target.inference and interpreter.grad != "inference":
        interpreter.hit("inference", node, sure, "written")
    if target.expanded and operation not in _MEMORY_FILLS and operation != "item assignment":
        interpreter.hit("expanded", node, sure)
    if target.dtype == "int" and op is not None and _makes_float(op, others, node):
        interpreter.hit("shape-dtype", node, sure, "dtype")
    if interpreter.grad != "on" or target.untracked:
        return
    recorded = requires_grad(target) or (True in [requires_grad(other) for other in others])
    owner = target.storage.leaf
    if recorded and target.view in ("multi", "custom", "nograd"):
        interpreter.hit({"multi": "multi-view", "custom": "custom-view", "nograd": "nograd-view"}[target.view], node, sure)
    elif owner is not None and owner.requires_grad and target.view != "detached":
        on_view = target is not owner and target.view is not None
        interpreter.hit("leaf-view" if on_view or operation == "item assignment by view" else "leaf", node, sure)


def _makes_float(op: ops.Op, others: list[Tensor], node: ast.AST) -> bool:
    base = op.name.rpartition(".")[2].rstrip("_").strip("_")
    if base in ("div", "true_divide", "itruediv", "idiv", "divide"):
        return True
    if isinstance(node, ast.AugAssign):
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, float) and not isinstance(node.op, ast.FloorDiv):
            return True
    return any(other.dtype == "float" for other in others) and base in ("add", "sub", "mul", "iadd", "isub", "imul")


def augmented(interpreter: Interpreter, node: ast.AugAssign, old: Tensor, value: Value) -> Value:
    """`x += v` on a tensor."""
    if isinstance(node.op, ast.MatMult):
        return binary(interpreter, node.op, old, value, node)
    if not old.known and not isinstance(value, Tensor):
        made = Tensor(old.storage, old.requires_grad, old.node, known=False)
        interpreter.tape.write(old, interpreter.place(node), _SYMBOLS[type(node.op)], target=ast.unparse(node.target))
        made.since = interpreter.tape.tick()
        return old
    return run_op(interpreter, f"{_OPERATOR_OPS[type(node.op)]}_", [old, value], {}, node, method=True,
                  label=_SYMBOLS[type(node.op)])  # fmt: skip


def binary(interpreter: Interpreter, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    """`left op right` with a tensor on one side."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        known = left if isinstance(left, Tensor) else right
        assert isinstance(known, Tensor)
        if not known.known:
            return UNKNOWN
    name = _OPERATOR_OPS[type(op)]
    if isinstance(right, Tensor) and not isinstance(left, Tensor):
        name = {"sub": "rsub", "div": "__rdiv__", "pow": "__rpow__"}.get(name, name)
        if name in ("__rdiv__", "__rpow__", "rsub"):
            found = _lookup(name)
            if found is None or not found.measured:
                name = _OPERATOR_OPS[type(op)]
                return run_op(interpreter, name, [left, right], {}, node)
            return run_op(interpreter, name, [right, left], {}, node)
        return run_op(interpreter, name, [right, left], {}, node)
    return run_op(interpreter, name, [left, right], {}, node)


# -- items ------------------------------------------------------------------------------------------------------------------


def get_item(interpreter: Interpreter, tensor: Tensor, key: Value, node: ast.AST) -> Value:
    """`x[key]`: a view for ints and slices, a copy where a tensor or list decides."""
    advanced = _is_advanced(key)
    if advanced is True:
        return run_op(interpreter, "index_select", [tensor, Const(0), key], {}, node) if isinstance(key, Tensor) else _index_copy(
            interpreter, tensor, node
        )
    view = run_op(interpreter, "narrow", [tensor, Const(0), Const(0), Const(1)], {}, node)
    if isinstance(view, Tensor):
        view.certain = view.certain and advanced is False
        view.known = tensor.known
        if not tensor.known:
            view.certain = False
    return view


def _index_copy(interpreter: Interpreter, tensor: Tensor, node: ast.AST) -> Value:
    made = fresh(interpreter, requires_grad(tensor), tensor.dtype)
    if interpreter.grad in ("off", "inference"):
        made.requires_grad = False
    before = node_of(tensor)
    if made.requires_grad:
        made.node = Node("IndexBackward0", interpreter.place(node), interpreter.tape.tick(), interpreter.tape.path)
        made.node.inputs = [before] if before is not None else []
        made.node.leaves = [tensor] if tensor.leaf else []
    return made


def _is_advanced(key: Value) -> bool | None:
    """Does indexing by this copy? None where that cannot be known."""
    if isinstance(key, Const):
        return isinstance(key.value, bool)
    if isinstance(key, Bound) and key.function == "slice":
        return False
    if isinstance(key, Tensor):
        return True if key.known else None
    if isinstance(key, Items):
        if key.kind == "list":
            return True
        parts = [_is_advanced(item) for item in key.items]
        return True if True in parts else None if None in parts or key.rest is not None else False
    if isinstance(key, Plain):
        return False if key.storage is None else True
    return None


def set_item(
    interpreter: Interpreter, holder: Value, target: ast.Subscript, value: Value, node: ast.AST, again: bool = False
) -> None:
    """`x[key] = value`; `again` for the second half of `x[key] += value`."""
    key = interpreter.eval(target.slice)
    mixed = not all(isinstance(option, Tensor) for option in options(holder))
    if isinstance(value, Const) and not isinstance(value.value, int | float | complex):
        mixed = True  # None and texts are no values for a tensor
    for option in options(holder):
        if isinstance(option, Tensor) and mixed:
            continue  # a dict in some cases, a tensor in others: which of them this line means is anybody's guess
        if isinstance(option, Tensor):
            _set_tensor_item(interpreter, option, key, value, node, again)
        elif isinstance(option, Plain) and option.storage is not None:
            _numpy_write(interpreter, option.storage, node)
        elif isinstance(option, Instance) and isinstance(setter := option.cls.find("__setitem__"), Function):
            interpreter.call_function(setter, [option, key, value], {}, node)
        else:
            python_model.set_item(option, key, value)


def _set_tensor_item(
    interpreter: Interpreter, tensor: Tensor, key: Value, value: Value, node: ast.AST, again: bool
) -> None:
    values = list(tensors_in(value))
    advanced = _is_advanced(key)
    if not again:
        by_view = tensor.storage.leaf is not None and advanced is False
        check_write(interpreter, tensor, node, "item assignment by view" if by_view else "item assignment", values)
    interpreter.tape.write(tensor, interpreter.place(node), "item assignment", target=_target_text(node))
    grad = False if interpreter.grad in ("off", "inference") else _any_grad([tensor, *values])
    if tensor.dtype in ("int", "bool"):
        grad = False
    if grad is False:
        return
    made = None
    if grad:
        made = Node("CopySlices", interpreter.place(node), interpreter.tape.tick(), interpreter.tape.path)
        made.inputs = [before for item in (tensor, *values) if (before := node_of(item)) is not None]
        made.leaves = [item for item in values if item.leaf and item.requires_grad]
    rebase(interpreter, tensor, made, grad)


def _numpy_write(interpreter: Interpreter, storage: Storage, node: ast.AST) -> None:
    tape = interpreter.tape
    storage.writes.append(Write(tape.tick(), tape.path, interpreter.place(node), "numpy", True, tracked=False))


# -- attributes and methods -------------------------------------------------------------------------------------------------


def attribute(interpreter: Interpreter, holder: Value, name: str, node: ast.AST) -> Value | None:
    """An attribute of a torch value; None where it is a method."""
    if isinstance(holder, Tensor):
        return _tensor_attribute(interpreter, holder, name, node)
    if isinstance(holder, Layer):
        if name in holder.state:
            return holder.state[name]
        if name in holder.children:
            return holder.children[name]
        if name == "training":
            return PLAIN if holder.training is None else Const(holder.training)
        if name in holder.options:
            return Const(holder.options[name])
        return UNKNOWN if name in ("running_mean", "running_var", "bias") else None
    if isinstance(holder, Plain):
        return None if name != "T" else holder
    if isinstance(holder, Optimizer) and name == "param_groups":
        return Items([Dictionary({"params": Items(list(holder.parameters))}, PLAIN)])
    return None


def _tensor_attribute(interpreter: Interpreter, tensor: Tensor, name: str, node: ast.AST) -> Value | None:
    if name in _PLAIN_ATTRIBUTES:
        return PLAIN
    if name in ("T", "mT", "H", "mH", "real", "imag"):
        return run_op(interpreter, "t", [tensor], {}, node)
    if name == "data":
        alias = Tensor(tensor.storage, False, dtype=tensor.dtype, known=tensor.known)
        alias.view, alias.untracked, alias.certain, alias.since = "detached", True, tensor.certain, interpreter.tape.tick()
        alias.gradient = tensor.gradient
        return alias
    if name == "grad":
        return fresh(interpreter, False, tensor.dtype)
    if name == "requires_grad":
        known = requires_grad(tensor)
        return PLAIN if known is None else Const(known)
    if name == "is_leaf":
        return Const(tensor.leaf) if tensor.known else PLAIN
    if name in ("values", "indices"):
        return None
    return PLAIN if name in ("grad_fn", "_version", "is_sparse", "is_nested") else None


def set_attribute(interpreter: Interpreter, holder: Value, name: str, value: Value, node: ast.AST) -> None:
    """`holder.name = value` on a torch value."""
    if isinstance(holder, Tensor):
        if name == "data":
            interpreter.tape.write(holder, interpreter.place(node), ".data =", tracked=False)
        elif name == "requires_grad" and isinstance(value, Const):
            set_requires_grad(interpreter, holder, bool(value.value))
    elif isinstance(holder, Layer):
        if isinstance(value, Tensor):
            holder.state[name] = value
        elif isinstance(value, Layer | Instance):
            holder.children[name] = value


def set_requires_grad(interpreter: Interpreter, tensor: Tensor, on: bool | None) -> None:
    """`x.requires_grad_(on)`."""
    if tensor.node is not None or (tensor.storage.node is not None and not tensor.leaf):
        return
    tensor.requires_grad = on if tensor.dtype not in ("int", "bool") else False
    tensor.leaf = True
    tensor.since = interpreter.tape.tick()
    if tensor.view in (None, "detached"):
        tensor.storage.leaf = tensor if on else None


def method(
    interpreter: Interpreter, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    """A method of a torch value; None where nothing is known of it."""
    if isinstance(receiver, Choice):
        return join([method(interpreter, option, name, args, keywords, node) or UNKNOWN for option in receiver.options])
    if isinstance(receiver, Tensor):
        return _tensor_method(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, Optimizer):
        return _optimizer_method(interpreter, receiver, name, args, node)
    if isinstance(receiver, Instance) and name in ("save_for_backward", "mark_dirty"):
        return _context_method(interpreter, receiver, name, args, node)
    if isinstance(receiver, Layer | Instance):
        return module_method(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, Class):
        return _class_method(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, Plain) and receiver.storage is not None:
        if name in ("fill", "sort", "put", "itemset", "resize"):
            _numpy_write(interpreter, receiver.storage, node)
            return NONE
        return Plain(receiver.storage) if name in ("reshape", "ravel", "view", "squeeze", "transpose") else PLAIN
    return None


def _tensor_method(
    interpreter: Interpreter, tensor: Tensor, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if name in _PLAIN_METHODS:
        return PLAIN
    special = _TENSOR_METHODS.get(name)
    if special is not None:
        made: Value = special(interpreter, tensor, args, keywords, node)
        return made
    if name in _NEW_METHODS:
        return fresh(interpreter, _flag(keywords.get("requires_grad")), _dtype_of(keywords), leaf=True)
    if name in _TO_INT:
        return fresh(interpreter, False, "bool" if name == "bool" else "int")
    if not tensor.known and not name.endswith("_"):
        return _unknown_method(interpreter, tensor, name, args, keywords, node)
    return run_op(interpreter, name, [tensor, *args], keywords, node, method=True)


def _unknown_method(
    interpreter: Interpreter, tensor: Tensor, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A method of a function's argument: a tensor if the op table knows the name."""
    if _lookup(name) is None:
        return UNKNOWN
    made = run_op(interpreter, name, [tensor, *args], keywords, node, method=True)
    for found in tensors_in(made):
        found.known = False
    return made


def _backward(interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    root = node_of(tensor)
    if root is not None:
        interpreter.tape.backward([root])
    return NONE


def _detach(interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    alias = Tensor(tensor.storage, False, dtype=tensor.dtype, known=tensor.known)
    alias.view, alias.certain, alias.since = "detached", tensor.certain, interpreter.tape.tick()
    alias.expanded, alias.inference, alias.gradient = tensor.expanded, tensor.inference, tensor.gradient
    alias.untracked = tensor.untracked
    return alias


def _detach_in_place(
    interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    tensor.requires_grad, tensor.node, tensor.leaf = False, None, True
    tensor.since = interpreter.tape.tick()
    return tensor


def _requires_grad(
    interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    wanted = args[0] if args else keywords.get("requires_grad", Const(True))
    set_requires_grad(interpreter, tensor, wanted.value if isinstance(wanted, Const) else None)
    return tensor


def _register_hook(
    interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if args:
        gradient = fresh(interpreter)
        gradient.gradient = True
        interpreter.call(args[0], [gradient], {}, node)
    return PLAIN


def _numpy(interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    return Plain(tensor.storage if tensor.certain else None)


def _converted(
    interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`.to()`, `.cuda()`, `.float()`: a copy, or the tensor itself."""
    dtype = _dtype_of({"dtype": argument for argument in args} | keywords)
    if dtype in ("int", "bool"):
        return fresh(interpreter, False, dtype)
    return _perhaps_same(interpreter, tensor, dtype)


def _as_float(
    interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return _perhaps_same(interpreter, tensor, "float")


def _perhaps_same(interpreter: Interpreter, tensor: Tensor, dtype: str | None) -> Tensor:
    same = Tensor(tensor.storage, requires_grad(tensor), node_of(tensor), leaf=tensor.leaf, dtype=dtype)
    same.certain, same.since, same.view = False, interpreter.tape.tick(), tensor.view
    same.parameter, same.inference, same.known = tensor.parameter, tensor.inference, tensor.known
    return same


def _reduced(name: str) -> Any:
    def run(interpreter: Interpreter, tensor: Tensor, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        return reduced(interpreter, name, [tensor, *args], keywords, node, True)

    return run


def reduced(
    interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST, method: bool
) -> Value:
    """`max`, `min`, `sort`, `topk`: values and indices where a dim is given, else values alone."""
    made = run_op(interpreter, name, args, keywords, node, method=method)
    with_dim = "dim" in keywords or name in ("sort", "topk", "kthvalue", "cummax", "cummin", "mode")
    with_dim = with_dim or (len(args) > 1 and not isinstance(args[1], Tensor))
    if isinstance(made, Items):
        values: Value = made.items[0] if made.items else UNKNOWN
    else:
        values = made
    if not with_dim:
        return values
    return Items([values, fresh(interpreter, False, "int")], "tuple")


_TENSOR_METHODS: dict[str, Any] = {
    "backward": _backward, "detach": _detach, "detach_": _detach_in_place, "requires_grad_": _requires_grad,
    "register_hook": _register_hook, "numpy": _numpy, "to": _converted, "cuda": _converted, "cpu": _converted,
    "float": _as_float, "half": _as_float, "double": _as_float, "bfloat16": _as_float, "type_as": _converted,
    "retain_grad": lambda i, t, a, k, n: NONE, "share_memory_": lambda i, t, a, k, n: t,
    "max": _reduced("max"), "min": _reduced("min"), "sort": _reduced("sort"), "topk": _reduced("topk"),
    "median": _reduced("median"), "kthvalue": _reduced("kthvalue"), "mode": _reduced("mode"),
    "cummax": _reduced("cummax"), "cummin": _reduced("cummin"),
}  # fmt: skip


# -- functions of torch -------------------------------------------------------------------------------------------------


def torch_attribute(name: str) -> Value:
    """Something of torch by its full name."""
    return Torch(name)


def _flag(value: Value | None) -> bool | None:
    if value is None:
        return False
    return bool(value.value) if isinstance(value, Const) else None


def _dtype_of(keywords: dict[str, Value]) -> str | None:
    value = keywords.get("dtype")
    if isinstance(value, Torch):
        word = value.name.rpartition(".")[2]
        return "bool" if word == "bool" else "int" if word in _INT_DTYPES else "float"
    return None


def call(interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    """A call of a torch function or class."""
    short = name.rpartition(".")[2]
    if name in GRAD_MODES:
        return _grad_mode(GRAD_MODES[name], args)
    if name in ("torch.set_grad_enabled", "torch.autograd.set_grad_enabled"):
        known = python_model.truth(args[0]) if args else None
        return GradMode("unknown" if known is None else "on" if known else "off")
    if name.startswith("torch.optim.") and short[:1].isupper():
        return _make_optimizer(interpreter, name, args, keywords)
    if name.startswith("torch.nn.init."):
        return _init(interpreter, args, node, short)
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return _make_parameter(interpreter, args, keywords)
    if name.startswith("torch.nn.") and short[:1].isupper() and ".functional." not in name:
        return make_layer(interpreter, name, args, keywords, node)
    special = _FUNCTIONS.get(name)
    if special is not None:
        made: Value = special(interpreter, args, keywords, node)
        return made
    if short in _FACTORIES and name.count(".") <= 1:
        return _factory(interpreter, short, args, keywords)
    if name.startswith(("torch.distributions", "torch.utils", "torch.cuda", "torch.distributed", "torch.backends")):
        return UNKNOWN
    return _function(interpreter, name, short, args, keywords, node)


def _function(
    interpreter: Interpreter, name: str, short: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if short in ("max", "min", "sort", "topk", "median", "kthvalue", "cummax", "cummin", "mode"):
        return reduced(interpreter, name, args, keywords, node, False)
    out = keywords.get("out")
    if out is not None:
        _check_out(interpreter, out, args, node)
    inplace = python_model.truth(keywords["inplace"]) if "inplace" in keywords else False
    asked = f"{name}(inplace=True)" if inplace else name
    if _lookup(asked) is None:
        return UNKNOWN
    plain = {key: value for key, value in keywords.items() if key not in ("out", "inplace")}
    made = run_op(interpreter, asked, args, plain, node, label=short)
    return out if out is not None else made


def _check_out(interpreter: Interpreter, out: Value, args: list[Value], node: ast.AST) -> None:
    for target in tensors_in(out):
        grads = [requires_grad(tensor) for value in (out, *args) for tensor in tensors_in(value)]
        if True in grads and interpreter.grad == "on":
            interpreter.hit("out-arg", node, target.known)
        interpreter.tape.write(target, interpreter.place(node), "out=")


def _grad_mode(mode: str, args: list[Value]) -> Value:
    if args and isinstance(args[0], Function):
        args[0].grad = mode
        return args[0]
    if args and python_model.truth(args[0]) is False:
        return GradMode("on")
    return GradMode(mode)


def _factory(interpreter: Interpreter, short: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    dtype = _dtype_of(keywords) if "dtype" in keywords else _factory_dtype(short, args)
    grad = _flag(keywords.get("requires_grad"))
    made = fresh(interpreter, grad, dtype, leaf=True)
    if short in ("from_numpy", "as_tensor", "asarray", "frombuffer") and args:
        source = args[0]
        if isinstance(source, Plain):
            source.storage = source.storage or made.storage if source is not PLAIN else None
            made.storage = source.storage or made.storage
        elif isinstance(source, Tensor):
            return source
    return made


def _factory_dtype(short: str, args: list[Value]) -> str | None:
    if short in _INT_FACTORIES:
        return "int"
    if short == "BoolTensor":
        return "bool"
    if short == "arange":
        whole = all(isinstance(arg, Const) and isinstance(arg.value, int) for arg in args)
        return "int" if whole else None
    if short in ("tensor", "as_tensor") and args:
        numbers = list(_constants(args[0]))
        if numbers and all(isinstance(number, bool) for number in numbers):
            return "bool"
        if numbers and all(isinstance(number, int) for number in numbers):
            return "int"
        return "float" if any(isinstance(number, float) for number in numbers) else None
    if short.endswith("_like") and args and isinstance(args[0], Tensor):
        return args[0].dtype
    return "float" if short in ("zeros", "ones", "rand", "randn", "eye", "linspace", "FloatTensor", "Tensor", "empty") else None


def _constants(value: Value) -> Iterator[Any]:
    if isinstance(value, Const):
        yield value.value
    elif isinstance(value, Items):
        for item in value.items:
            yield from _constants(item)


def _make_parameter(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value]) -> Value:
    wanted = keywords.get("requires_grad", args[1] if len(args) > 1 else Const(True))
    grad = wanted.value if isinstance(wanted, Const) else None
    made = parameter(interpreter, grad)
    if args and isinstance(args[0], Tensor):
        made.storage = args[0].storage
        made.since = interpreter.tape.tick()
    if grad:
        made.storage.leaf = made
    return made


def _init(interpreter: Interpreter, args: list[Value], node: ast.AST, short: str) -> Value:
    for tensor in tensors_in(args[0]) if args else ():
        interpreter.tape.write(tensor, interpreter.place(node), short)
    return args[0] if args else UNKNOWN


def _autograd_backward(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    roots = [root for tensor in tensors_in(args[0]) if (root := node_of(tensor)) is not None] if args else []
    interpreter.tape.backward(roots)
    return NONE


def _autograd_grad(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    outputs = args[0] if args else keywords.get("outputs", UNKNOWN)
    wrt = args[1] if len(args) > 1 else keywords.get("inputs", UNKNOWN)
    roots = [root for tensor in tensors_in(outputs) if (root := node_of(tensor)) is not None]
    inputs = list(tensors_in(wrt))
    interpreter.tape.backward(roots, inputs or None)
    create = python_model.truth(keywords.get("create_graph", Const(False)))
    gradients: list[Value] = []
    for _tensor in inputs or [None]:
        gradient = fresh(interpreter, False if create is False else None, "float")
        if create and roots:
            gradient.requires_grad = True
            gradient.node = Node("grad", interpreter.place(node), interpreter.tape.tick(), interpreter.tape.path)
            gradient.node.inputs = roots
        gradients.append(gradient)
    single = isinstance(wrt, Tensor)
    return Items(gradients, "tuple", None if single or inputs else gradients[0])


def _cat(name: str) -> Any:
    def run(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        parts = [tensor for value in args for tensor in tensors_in(value)]
        if not parts and any(isinstance(value, Unknown) for value in args):
            return UNKNOWN
        if "out" in keywords:
            _check_out(interpreter, keywords["out"], args, node)
        grad = False if interpreter.grad in ("off", "inference") else _any_grad(parts)
        made = fresh(interpreter, grad, parts[0].dtype if parts else None)
        if grad:
            made.node = Node(name, interpreter.place(node), interpreter.tape.tick(), interpreter.tape.path)
            made.node.inputs = [before for part in parts if (before := node_of(part)) is not None]
            made.node.leaves = [part for part in parts if part.leaf and part.requires_grad]
        return made

    return run


def _checkpoint(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    return interpreter.call(args[0], args[1:], {}, node) if args else UNKNOWN


def _compile(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    return args[0] if args else UNKNOWN


def _meshgrid(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    grids: list[Value] = []
    for value in args[0].items if len(args) == 1 and isinstance(args[0], Items) else args:
        grid = fresh(interpreter, False, value.dtype if isinstance(value, Tensor) else None)
        grid.expanded = True
        grids.append(grid)
    return Items(grids, "tuple")


_FUNCTIONS: dict[str, Any] = {
    "torch.autograd.backward": _autograd_backward, "torch.autograd.grad": _autograd_grad, "torch.cat": _cat("CatBackward0"),
    "torch.concat": _cat("CatBackward0"), "torch.stack": _cat("StackBackward0"), "torch.hstack": _cat("CatBackward0"),
    "torch.vstack": _cat("CatBackward0"), "torch.utils.checkpoint.checkpoint": _checkpoint, "torch.compile": _compile,
    "torch.jit.script": _compile, "torch.nn.parallel.DistributedDataParallel": _compile, "torch.nn.DataParallel": _compile,
    "torch.meshgrid": _meshgrid, "torch.manual_seed": lambda i, a, k, n: PLAIN,
    "torch.is_tensor": lambda i, a, k, n: Const(True) if a and isinstance(a[0], Tensor) and a[0].known else PLAIN,
    "torch.is_grad_enabled": lambda i, a, k, n: Const(i.grad == "on") if i.grad != "unknown" else PLAIN,
    "torch.utils.data.DataLoader": lambda i, a, k, n: UNKNOWN,
}  # fmt: skip


# -- modules ----------------------------------------------------------------------------------------------------------------


def make_layer(interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    """`nn.Linear(...)` and its kin."""
    if name in _CONTAINERS:
        layer = Layer(name, {})
        fill_container(layer, args)
        return layer
    if name == "torch.nn.Module":
        return Layer(name, {})
    kind = f"nn.{name.rpartition('.')[2]}"
    op = _lookup(kind)
    if op is None:
        return UNKNOWN
    options_given = {key: value.value for key, value in keywords.items() if isinstance(value, Const)}
    if "Dropout" in kind and args and isinstance(args[0], Const):
        options_given["p"] = args[0].value
    inplace = keywords.get("inplace")
    if inplace is None and _flag_first(kind) and args:
        inplace = args[_flag_first(kind) - 1] if len(args) >= _flag_first(kind) else None
    if inplace is not None:
        options_given["inplace"] = python_model.truth(inplace)
    layer = Layer(kind, options_given)
    for name_of in op.state:
        if not (name_of == "bias" and options_given.get("bias") is False):
            is_buffer = name_of.startswith("running_") or name_of == "num_batches_tracked"
            layer.state[name_of] = fresh(interpreter, False, "float") if is_buffer else parameter(interpreter)
    if kind.startswith("nn.BatchNorm"):
        layer.state["num_batches_tracked"] = fresh(interpreter, False, "int")
    for name_of in ("weight", "bias"):
        if name_of not in layer.state and kind in _WITH_WEIGHTS and options_given.get(name_of) is not False:
            layer.state[name_of] = parameter(interpreter)
    return layer


_WITH_WEIGHTS = {"nn.Linear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d", "nn.Embedding", "nn.BatchNorm1d", "nn.BatchNorm2d",
                 "nn.LayerNorm", "nn.GroupNorm", "nn.ConvTranspose2d", "nn.ConvTranspose1d", "nn.Bilinear"}  # fmt: skip


def _flag_first(kind: str) -> int:
    """The position (from 1) of `inplace` among the positional arguments."""
    return {"nn.ReLU": 1, "nn.ReLU6": 1, "nn.SELU": 1, "nn.SiLU": 1, "nn.Mish": 1, "nn.Hardswish": 1, "nn.Hardsigmoid": 1,
            "nn.LeakyReLU": 2, "nn.ELU": 2, "nn.CELU": 2, "nn.Dropout": 2, "nn.Dropout2d": 2, "nn.Dropout3d": 2,
            "nn.AlphaDropout": 2, "nn.Hardtanh": 3, "nn.Threshold": 3, "nn.RReLU": 3}.get(kind, 0)  # fmt: skip


def fill_container(layer: Layer, args: list[Value]) -> None:
    """The children of Sequential, ModuleList and ModuleDict."""
    source: Value | None = args[0] if args else None
    if isinstance(source, Dictionary):
        layer.children.update({str(key): value for key, value in source.items.items()})
        return
    items = args
    if layer.kind.endswith("List") or (len(args) == 1 and isinstance(source, Items)):
        items = python_model.spread(source) if source is not None else []
    for place, item in enumerate(items):
        layer.children[str(place)] = item


def run_layer(
    interpreter: Interpreter, layer: Layer, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """Calls a module of torch.nn."""
    if layer.kind == "torch.nn.Sequential":
        value: Value = args[0] if args else UNKNOWN
        for child in layer.children.values():
            value = interpreter.call(child, [value], {}, node)
        return _hooked(interpreter, value, node) if layer.hooked else value
    if layer.kind in _CONTAINERS or layer.kind == "torch.nn.Module":
        return UNKNOWN
    if args and isinstance(args[0], Unknown):
        args = [_assumed_tensor(interpreter), *args[1:]]
    name = f"{layer.kind}(inplace=True)" if layer.options.get("inplace") is True else layer.kind
    if "Dropout" in layer.kind:
        return _dropout(interpreter, name, layer, args, node)
    made = run_op(interpreter, name, args, keywords, node, layer=layer, label=layer.kind)
    if layer.kind in ("nn.LSTM", "nn.GRU", "nn.RNN", "nn.LSTMCell"):
        made = _recurrent(interpreter, layer, made)
    elif layer.kind == "nn.MultiheadAttention" and isinstance(made, Tensor):
        made = Items([made, UNKNOWN], "tuple")
    return _hooked(interpreter, made, node) if layer.hooked else made


def _dropout(interpreter: Interpreter, name: str, layer: Layer, args: list[Value], node: ast.AST) -> Value:
    """Dropout does nothing in evaluation or with p = 0, and then it writes nothing either."""
    rate, given = layer.options.get("p"), args[0] if args else UNKNOWN
    if layer.training is False or rate == 0 or not isinstance(given, Tensor):
        return given
    if layer.options.get("inplace") is not True or (layer.training and isinstance(rate, float)):
        return run_op(interpreter, name, args, {}, node, layer=layer, label=layer.kind)
    perhaps = Tensor(given.storage, given.requires_grad, given.node, dtype=given.dtype)
    perhaps.certain, perhaps.since, perhaps.view = False, given.since, given.view
    run_op(interpreter, name, [perhaps, *args[1:]], {}, node, layer=layer, label=layer.kind)
    return given


def _assumed_tensor(interpreter: Interpreter) -> Tensor:
    """An argument of a module must be a tensor, whatever it is."""
    made = fresh(interpreter, None)
    made.certain = False
    return made


def _recurrent(interpreter: Interpreter, layer: Layer, made: Value) -> Value:
    first = made.items[0] if isinstance(made, Items) and made.items else made
    if not isinstance(first, Tensor):
        return made
    again = [_like(interpreter, first) for _ in range(2)]
    if layer.kind == "nn.LSTMCell":
        return Items([first, again[0]], "tuple")
    if layer.kind == "nn.LSTM":
        return Items([first, Items([*again], "tuple")], "tuple")
    return Items([first, again[0]], "tuple")


def _like(interpreter: Interpreter, tensor: Tensor) -> Tensor:
    made = fresh(interpreter, tensor.requires_grad, tensor.dtype)
    made.node = tensor.node
    return made


def _hooked(interpreter: Interpreter, value: Value, node: ast.AST) -> Value:
    """A full backward hook passes the output through a custom Function, which returns it as a view."""
    for tensor in tensors_in(value):
        if requires_grad(tensor):
            view = Tensor(tensor.storage, tensor.requires_grad, node_of(tensor), dtype=tensor.dtype)
            view.view, view.since, view.certain = "custom", interpreter.tape.tick(), tensor.certain
            if isinstance(value, Tensor):
                return view
    return value


def run_module(
    interpreter: Interpreter, module: Instance, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """Calls a module of the project: its forward, or that of the torch class it is built on."""
    forward = module.cls.find("forward")
    if isinstance(forward, Function):
        made = interpreter.call_function(forward, [module, *args], keywords, node)
    else:
        made = _base_forward(interpreter, module, args, keywords, node)
    return _hooked(interpreter, made, node) if module.hooked else made


def _base_forward(
    interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """The forward of the torch class that a project class is built on."""
    if not isinstance(module, Instance):
        return UNKNOWN
    base = module.cls.torch_base() or ""
    if base == "torch.nn.Sequential":
        value: Value = args[0] if args else UNKNOWN
        for child in children_of(module).values():
            value = interpreter.call(child, [value], {}, node)
        return value
    layer = make_layer(interpreter, base, [], {}, node)
    if not isinstance(layer, Layer) or base in _CONTAINERS or base == "torch.nn.Module":
        return UNKNOWN
    layer.state.update({name: own for name in layer.state if isinstance(own := module.names.get(name), Tensor)})
    training = module.names.get("training")
    layer.training = python_model.truth(training) if training is not None else None
    return run_layer(interpreter, layer, args, keywords, node)


def children_of(module: Value) -> dict[str, Value]:
    """The modules and containers of modules directly inside this one."""
    if isinstance(module, Layer):
        return module.children
    if isinstance(module, Instance):
        return {name: value for name, value in module.names.items() if isinstance(value, Instance | Layer) and is_module(value)}
    return {}


def is_module(value: Value) -> bool:
    """Is it an nn.Module?"""
    if isinstance(value, Instance):
        return (value.cls.torch_base() or "").startswith("torch.nn.")
    return isinstance(value, Layer)


def tensors_of(module: Value, seen: set[int] | None = None) -> dict[str, Tensor]:
    """All parameters and buffers of a module, by their dotted names."""
    seen = set() if seen is None else seen
    if id(module) in seen:
        return {}
    seen.add(id(module))
    found: dict[str, Tensor] = {}
    own = module.state if isinstance(module, Layer) else module.names if isinstance(module, Instance) else {}
    for name, value in own.items():
        if isinstance(value, Tensor) and (value.parameter or name in _buffers(module)):
            found[name] = value
    for name, child in children_of(module).items():
        found.update({f"{name}.{inner}": tensor for inner, tensor in tensors_of(child, seen).items()})
    return found


def _buffers(module: Value) -> set[str]:
    if isinstance(module, Layer):
        return set(module.state)
    registered = module.names.get("__buffers__") if isinstance(module, Instance) else None
    return set(registered.items) if isinstance(registered, Dictionary) else set()


def parameters_of(module: Value) -> list[Tensor]:
    """`module.parameters()`."""
    return [tensor for tensor in tensors_of(module).values() if tensor.parameter]


def object_attribute(interpreter: Interpreter, holder: Instance, base: str, name: str) -> Value:
    """An attribute of an object whose class is built on a torch class, where the project defines none."""
    if base.startswith("torch.nn.") and base in _CONTAINERS and name in holder.names:
        return holder.names[name]
    return Bound(name, holder)


def super_attribute(interpreter: Interpreter, receiver: Value, base: str, name: str) -> Value:
    """`super().name` where torch is next in line."""
    if name == "__init__" and base in _CONTAINERS and isinstance(receiver, Instance):
        return Bound("__init_container__", receiver)
    if name in ("forward", "__call__") and base.startswith("torch.nn."):
        return Bound("__forward__", receiver)
    return Bound(name, receiver)


def init_container(interpreter: Interpreter, made: Instance, base: str, args: list[Value], node: ast.AST) -> None:
    """A subclass of Sequential without an `__init__` of its own."""
    if base in _CONTAINERS:
        layer = Layer(base, {})
        fill_container(layer, args)
        made.names.update(layer.children)


def construct(
    interpreter: Interpreter, cls: Class, base: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    """An object of a project class that torch treats in its own way."""
    if base.startswith("torch.optim.") and cls.find("step") is None:
        return _make_optimizer(interpreter, f"torch.optim.{cls.name}", args, keywords)
    return None


def own_state(interpreter: Interpreter, base: str, node: ast.AST) -> dict[str, Value]:
    """The parameters that a project class inherits from the torch class it is built on."""
    if not base.startswith("torch.nn.") or base in _CONTAINERS or base == "torch.nn.Module":
        return {}
    layer = make_layer(interpreter, base, [], {}, node)
    return dict(layer.state) if isinstance(layer, Layer) else {}


def module_method(
    interpreter: Interpreter, module: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    """A method that nn.Module provides."""
    if not is_module(module):
        return None
    run = _MODULE_METHODS.get(name)
    if run is not None:
        made: Value = run(interpreter, module, args, keywords, node)
        return made
    if name in ("cuda", "to", "cpu", "half", "float", "double", "bfloat16", "apply", "share_memory", "type"):
        if name == "apply" and args:
            for child in (module, *_all_modules(module)):
                interpreter.call(args[0], [child], {}, node)
        return module
    return NONE if name in ("__init__", "zero_grad") else None


def _all_modules(module: Value) -> list[Value]:
    found: list[Value] = []
    for child in children_of(module).values():
        found.extend([child, *_all_modules(child)])
    return found


def _train(interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    known = python_model.truth(args[0]) if args else True
    _set_training(module, known)
    return module


def _eval(interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    _set_training(module, False)
    return module


def _set_training(module: Value, on: bool | None) -> None:
    for part in (module, *_all_modules(module)):
        if isinstance(part, Layer):
            part.training = on
        elif isinstance(part, Instance):
            part.names["training"] = PLAIN if on is None else Const(on)


def _module_requires_grad(
    interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    wanted = args[0] if args else Const(True)
    for tensor in parameters_of(module):
        set_requires_grad(interpreter, tensor, wanted.value if isinstance(wanted, Const) else None)
    return module


def _state_dict(interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    kept: dict[Any, Value] = {name: _detach(interpreter, tensor, [], {}, node) for name, tensor in tensors_of(module).items()}
    return StateDict(kept, interpreter.tape.tick())


def _load_state_dict(
    interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    own = list(tensors_of(module).values())
    for kept in options(args[0]) if args else ():
        if isinstance(kept, StateDict):
            _check_kept(interpreter, kept, own)
    for tensor in own:
        interpreter.tape.write(tensor, interpreter.place(node), "load_state_dict", step=True)
    return NONE


def _check_kept(interpreter: Interpreter, kept: StateDict, own: list[Tensor]) -> None:
    """The kept dict holds the module's own tensors, and they were stepped since: it kept nothing."""
    from outplace.source.tape import Hit

    mine = {id(tensor.storage) for tensor in own}
    for tensor in kept.items.values():
        if isinstance(tensor, Tensor) and id(tensor.storage) in mine:
            for write in tensor.storage.writes:
                if write.time > kept.since and write.step:
                    interpreter.tape.hits.append(Hit("silent-other", write, write.place, True, detail="state-dict"))


def _register_buffer(
    interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) > 1 and isinstance(args[0], Const) and isinstance(module, Instance):
        interpreter.set_name(module.names, str(args[0].value), args[1])
        names = module.names.setdefault("__buffers__", Dictionary())
        if isinstance(names, Dictionary):
            names.items[str(args[0].value)] = args[1]
    return NONE


def _register_parameter(
    interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) > 1 and isinstance(args[0], Const) and isinstance(module, Instance):
        interpreter.set_name(module.names, str(args[0].value), args[1])
    return NONE


def _hook(interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    if isinstance(module, Instance | Layer):
        module.hooked = True
    return PLAIN


def _init_container(
    interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if isinstance(module, Instance):
        init_container(interpreter, module, module.cls.torch_base() or "", args, node)
    return NONE


def _append(interpreter: Interpreter, module: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    holder = module.children if isinstance(module, Layer) else module.names if isinstance(module, Instance) else {}
    items = args[-1:] if args else []
    if isinstance(items[0] if items else None, Items):
        items = python_model.spread(items[0])
    for item in items:
        holder[str(len(holder))] = item
    return module


_MODULE_METHODS: dict[str, Any] = {
    "parameters": lambda i, m, a, k, n: Items(list(parameters_of(m))),
    "named_parameters": lambda i, m, a, k, n: Items(
        [Items([Const(name), tensor], "tuple") for name, tensor in tensors_of(m).items() if tensor.parameter]
    ),
    "buffers": lambda i, m, a, k, n: Items([tensor for tensor in tensors_of(m).values() if not tensor.parameter]),
    "modules": lambda i, m, a, k, n: Items([m, *_all_modules(m)]),
    "children": lambda i, m, a, k, n: Items(list(children_of(m).values())),
    "named_children": lambda i, m, a, k, n: Items(
        [Items([Const(name), child], "tuple") for name, child in children_of(m).items()]
    ),
    "named_modules": lambda i, m, a, k, n: Items(
        [Items([Const(name), child], "tuple") for name, child in children_of(m).items()]
    ),
    "items": lambda i, m, a, k, n: Items(
        [Items([Const(name), child], "tuple") for name, child in children_of(m).items()]
    ),
    "values": lambda i, m, a, k, n: Items(list(children_of(m).values())),
    "keys": lambda i, m, a, k, n: Items([Const(name) for name in children_of(m)]),
    "train": _train, "eval": _eval, "requires_grad_": _module_requires_grad, "state_dict": _state_dict,
    "load_state_dict": _load_state_dict, "register_buffer": _register_buffer, "register_parameter": _register_parameter,
    "register_full_backward_hook": _hook, "add_module": _register_parameter, "register_module": _register_parameter,
    "__init_container__": _init_container, "__forward__": _base_forward, "append": _append,
    "extend": _append, "insert": _append,
    "register_forward_hook": lambda i, m, a, k, n: PLAIN,
    "register_forward_pre_hook": lambda i, m, a, k, n: PLAIN,
}  # fmt: skip


# -- custom Functions -----------------------------------------------------------------------------------------------------


def _class_method(
    interpreter: Interpreter, cls: Class, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    if name == "apply" and (cls.torch_base() or "").startswith("torch.autograd"):
        return _apply_function(interpreter, cls, args, keywords, node)
    if name == "__init__" and args and isinstance(args[0], Instance):
        base = cls.torch_base()
        if base in _CONTAINERS:
            init_container(interpreter, args[0], base, args[1:], node)
        return NONE
    return None


def _context_method(interpreter: Interpreter, context: Instance, name: str, args: list[Value], node: ast.AST) -> Value:
    if name == "save_for_backward":
        context.names["saved"] = Items(list(args))
    return NONE


def _apply_function(
    interpreter: Interpreter, cls: Class, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`MyFunction.apply(x)`: forward runs without grad; what it saves is kept by one node."""
    forward = cls.find("forward")
    if not isinstance(forward, Function):
        return UNKNOWN
    context = Instance(cls)
    context.names["saved"] = Items([])
    mode, interpreter.grad = interpreter.grad, "off" if interpreter.grad == "on" else interpreter.grad
    known = {id(tensor.storage) for value in args for tensor in tensors_in(value)}
    separate = cls.find("setup_context") is not None
    made = interpreter.call_function(forward, args if separate else [context, *args], keywords, node)
    if separate and isinstance(setup := cls.find("setup_context"), Function):
        interpreter.call_function(setup, [context, Items(list(args), "tuple"), made], {}, node)
    interpreter.grad = mode
    inputs = [tensor for value in args for tensor in tensors_in(value)]
    grad = False if mode in ("off", "inference") else _any_grad(inputs)
    recorded = None
    if grad:
        recorded = Node(f"{cls.node.name}Backward", interpreter.place(node), interpreter.tape.tick(), interpreter.tape.path)
        recorded.inputs = [before for tensor in inputs if (before := node_of(tensor)) is not None]
        recorded.leaves = [tensor for tensor in inputs if tensor.leaf and tensor.requires_grad]
        kept = context.names["saved"]
        for place, tensor in enumerate(tensors_in(kept)):
            label = f"saved_tensors[{place}]"
            recorded.saves.append(Save(tensor.storage, recorded.time, label, tensor.certain, tensor.parameter))
    return _function_results(interpreter, made, recorded, grad, known)


def _function_results(
    interpreter: Interpreter, made: Value, node: Node | None, grad: bool | None, inputs: set[int]
) -> Value:
    if isinstance(made, Items):
        return Items([_function_results(interpreter, item, node, grad, inputs) for item in made.items], made.kind, made.rest)
    if not isinstance(made, Tensor):
        return made
    result = Tensor(made.storage, grad, node, dtype=made.dtype)
    result.since, result.certain = interpreter.tape.tick(), made.certain
    if grad and (made.view in ("view", "multi", "nograd") or id(made.storage) in inputs):
        result.view = "custom"
    return result


# -- optimizers -----------------------------------------------------------------------------------------------------------


def _make_optimizer(interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    if ".lr_scheduler." in name or "swa_utils" in name:
        return PLAIN
    source = args[0] if args else keywords.get("params", UNKNOWN)
    return Optimizer(name.rpartition(".")[2], list(_parameters_in(source)))


def _parameters_in(value: Value) -> Iterator[Tensor]:
    for option in options(value):
        if isinstance(option, Tensor):
            yield option
        elif isinstance(option, Items):
            for item in (*option.items, *([option.rest] if option.rest is not None else [])):
                yield from _parameters_in(item)
        elif isinstance(option, Dictionary):
            yield from _parameters_in(option.items.get("params", UNKNOWN))


def _optimizer_method(interpreter: Interpreter, optimizer: Optimizer, name: str, args: list[Value], node: ast.AST) -> Value:
    if name == "step":
        if args and isinstance(args[0], Function):
            interpreter.call(args[0], [], {}, node)
        for tensor in optimizer.parameters:
            if tensor.requires_grad is not False:
                interpreter.tape.write(tensor, interpreter.place(node), f"{optimizer.kind}.step", step=True)
        return NONE
    if name == "add_param_group" and args:
        optimizer.parameters.extend(_parameters_in(args[0]))
    return NONE


# -- types ----------------------------------------------------------------------------------------------------------------


def is_instance(value: Value, kind: Value) -> bool | None:
    """`isinstance(value, kind)`; None where that cannot be known."""
    if isinstance(kind, Class):
        if isinstance(value, Instance):
            return kind in value.cls.lineage() or None if any(isinstance(base, Unknown) for base in value.cls.lineage()) else kind in value.cls.lineage()
        return False if isinstance(value, Tensor | Layer | Const | Items | Dictionary) else None
    if isinstance(kind, Torch):
        short = kind.name.rpartition(".")[2]
        if kind.name in ("torch.Tensor", "torch.FloatTensor"):
            if isinstance(value, Tensor):
                return True if value.known else None
            return False if isinstance(value, Const | Plain | Items | Dictionary | Layer | Instance) else None
        if isinstance(value, Layer):
            return value.kind == f"nn.{short}" or value.kind == kind.name or kind.name == "torch.nn.Module" or _is_base(value.kind, short)
        if isinstance(value, Instance):
            return kind.name in [base.name for base in value.cls.lineage() if isinstance(base, Torch)]
        return False if isinstance(value, Tensor | Const) else None
    names = {"builtins.list": "list", "builtins.tuple": "tuple"}
    if isinstance(value, Items) and hasattr(kind, "name") and kind.name in names:
        return value.kind == names[kind.name]
    if isinstance(value, Dictionary) and getattr(kind, "name", "") == "builtins.dict":
        return True
    if isinstance(value, Tensor) and value.known and getattr(kind, "name", "").startswith("builtins."):
        return False
    if isinstance(value, Const) and getattr(kind, "name", "").startswith("builtins."):
        return type(value.value).__name__ == kind.name.rpartition(".")[2]  # type: ignore[attr-defined]
    return None


def _is_base(kind: str, short: str) -> bool:
    return short in ("_BatchNorm", "_ConvNd", "_NormBase") and ("BatchNorm" in kind or "Conv" in kind)
