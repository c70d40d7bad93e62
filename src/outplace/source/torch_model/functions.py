"""Functions and classes of torch, by their full names."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

from outplace.knowledge.traits import has, idle_in_evaluation, is_factory
from outplace.source import contents
from outplace.source.graph import Block
from outplace.source.torch_model import dtypes, layouts, library, parametrized, shapes
from outplace.source.torch_model.distributions import divergence, make_distribution
from outplace.source.torch_model.factories import make_tensor
from outplace.source.torch_model.layers import make_layer, run_dropout
from outplace.source.torch_model.leaf_aliases import check_overwritten
from outplace.source.torch_model.loaders import make_loader
from outplace.source.torch_model.methods import tensor_attribute
from outplace.source.torch_model.op_calls import find_op
from outplace.source.torch_model.operations import reduced, run_op
from outplace.source.torch_model.optimizers import make_optimizer
from outplace.source.torch_model.tensors import (
    any_grad,
    depend_on,
    fresh,
    node_of,
    parameter,
    requires_grad,
    tensors_in,
)
from outplace.source.torch_model.transforms import DIFFERENTIATING, differentiated, functional_call, transformed, vjp
from outplace.source.torch_model.writing import check_overlap
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Const,
    Function,
    GradMode,
    Items,
    Keywords,
    Scaler,
    Tensor,
    Torch,
    Unknown,
    Value,
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


def torch_attribute(name: str) -> Value:
    """Something of torch by its full name."""
    return Torch(name)


def call(interpreter: Interpreter, name: str, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """A call of a torch function or class."""
    if name.startswith("torch.ops.aten."):
        name = f"torch.{name.split('.')[3]}"
    if name.startswith(("torch.library.", "torch.ops.")):
        return library.call(interpreter, name, args, keywords, node) or UNKNOWN
    special = _FUNCTIONS.get(name)
    if special is not None:
        result: Value = special(interpreter, args, keywords, node)
        return result
    short = name.rpartition(".")[2]
    if short[:1].isupper() and name.startswith("torch.optim."):
        return make_optimizer(name, args, keywords)
    if short[:1].isupper() and name.startswith("torch.nn.") and ".functional." not in name:
        return make_layer(interpreter, name, args, keywords)
    if name.startswith("torch.nn.init."):
        return _init(interpreter, args, node, short)
    if name.startswith("torch._foreach_"):
        return _foreach(interpreter, short.removeprefix("_foreach_"), args, node)
    if name.startswith(("torch.func.", "functorch.")) and short in DIFFERENTIATING:
        return transformed(short, args)
    if is_factory(short) and name.count(".") <= 1:
        if "out" in keywords:
            _check_out(interpreter, keywords["out"], args, node)
            return keywords["out"]
        return make_tensor(interpreter, short, args, keywords, node)
    if name.startswith("torch.distributions."):
        return make_distribution(name, args, keywords)
    if name.startswith(("torch.utils", "torch.cuda", "torch.distributed", "torch.backends")):
        return Unknown()
    return _function(interpreter, name, short, args, keywords, node)


def _function(interpreter: Interpreter, name: str, short: str, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    out = keywords.get("out")
    if out is not None:
        _check_out(interpreter, out, args, node)
    if has(short, "may_give_indices"):
        plain = {key: value for key, value in keywords.items() if key != "out"}
        return out or reduced(interpreter, name, args, plain, node, False)
    inplace = contents.truth(_argument(name, "inplace", args, keywords, Const(False)))
    asked = f"{name}(inplace=True)" if inplace else name
    if find_op(asked) is None:
        return UNKNOWN
    if args and idle_in_evaluation(name):
        training = _argument(name, "training", args, keywords, Const("alpha" not in short))
        rate = _argument(name, "p", args, keywords, Const(0.5))
        return run_dropout(interpreter, asked, args[0], rate, contents.truth(training), node, short)
    plain = {key: value for key, value in keywords.items() if key not in ("out", "inplace")}
    result = run_op(interpreter, asked, args, plain, node, label=short)
    return out if out is not None else result


def _argument(name: str, wanted: str, args: Args, keywords: Keywords, default: Value) -> Value:
    """An option of a function, given by keyword or by position."""
    if wanted in keywords:
        return keywords[wanted]
    op = find_op(name)
    place = op.params.index(wanted) if op is not None and wanted in op.params else len(args)
    return args[place] if place < len(args) else default


def _foreach(interpreter: Interpreter, name: str, args: Args, node: ast.AST) -> Value:
    """`torch._foreach_add_(tensors, others)`: the operation on each of them."""
    if not args or not isinstance(args[0], Items):
        return UNKNOWN
    rest = [value.items if isinstance(value, Items) else None for value in args[1:]]
    result: list[Value] = []
    for place, item in enumerate(args[0].items):
        row = [args[1 + at] if column is None else column[place] if place < len(column) else UNKNOWN
               for at, column in enumerate(rest)]  # fmt: skip
        result.append(run_op(interpreter, name, [item, *row], {}, node, method=True, label=f"_foreach_{name}"))
    return Items(result)


def _check_out(interpreter: Interpreter, out: Value, args: Args, node: ast.AST) -> None:
    for target in tensors_in(out):
        grads = [requires_grad(tensor) for value in (out, *args) for tensor in tensors_in(value)]
        if True in grads and interpreter.grad == "on":
            interpreter.hit("out-arg", node, target.known)
        read = [tensor for value in args for tensor in tensors_in(value)]
        check_overlap(interpreter, target, target.region, "out=", read, node)
        words = node.keywords if isinstance(node, ast.Call) else []
        name = next((ast.unparse(word.value) for word in words if word.arg == "out"), "")
        interpreter.tape.write(target, interpreter.place(node), "out=", target=name)


def _grad_mode(mode: str) -> Any:
    """`torch.no_grad()` and its kin; `no_grad(function)` decorates a function."""

    def run(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
        if args and isinstance(args[0], Function):
            args[0].grad = mode
            return args[0]
        return GradMode("on" if args and contents.truth(args[0]) is False else mode)

    return run


def _set_grad_enabled(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    known = contents.truth(args[0]) if args else None
    return GradMode("unknown" if known is None else "on" if known else "off")


def _vector_to_parameters(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """It gives each parameter other memory, unseen, as `p.data = part` does."""
    for tensor in tensors_in(args[1]) if len(args) > 1 else ():
        interpreter.tape.write(tensor, interpreter.place(node), "vector_to_parameters", tracked=False, moved=True)
    return NONE


def _from_dlpack(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """The same memory, with a version of its own."""
    return tensor_attribute(interpreter, args[0], "data", node) or UNKNOWN if isinstance(args[0], Tensor) else UNKNOWN


def _make_parameter(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    wanted = keywords.get("requires_grad", args[1] if len(args) > 1 else Const(True))
    grad = wanted.value if isinstance(wanted, Const) else None
    tensor = parameter(interpreter, grad)
    if args and isinstance(args[0], Tensor):
        tensor.storage, tensor.shape, tensor.packed = args[0].storage, args[0].shape, args[0].packed
        tensor.region, tensor.expanded, tensor.repeated = args[0].region, args[0].expanded, args[0].repeated
        tensor.since, tensor.aliased = interpreter.tape.tick(), args[0]
    if grad:
        tensor.family.leaf = tensor
    return tensor


def _init(interpreter: Interpreter, args: Args, node: ast.AST, short: str) -> Value:
    for tensor in tensors_in(args[0]) if args else ():
        interpreter.tape.write(tensor, interpreter.place(node), short)
    return args[0] if args else UNKNOWN


def _autograd_backward(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    roots = [root for tensor in tensors_in(args[0]) if (root := node_of(tensor)) is not None] if args else []
    inputs = list(tensors_in(keywords["inputs"])) if "inputs" in keywords else None
    interpreter.go_backward(roots, node, inputs)
    return NONE


def _autograd_grad(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    outputs = args[0] if args else keywords.get("outputs", UNKNOWN)
    wrt = args[1] if len(args) > 1 else keywords.get("inputs", UNKNOWN)
    roots = [root for tensor in tensors_in(outputs) if (root := node_of(tensor)) is not None]
    inputs = list(tensors_in(wrt))
    interpreter.tape.backward(roots, inputs or None)
    create = contents.truth(keywords.get("create_graph", Const(False)))
    gradients: list[Value] = []
    for _ in range(max(1, len(inputs))):
        gradient = fresh(interpreter, False if create is False else None, "float")
        if create and roots:
            gradient.requires_grad = True
            gradient.node = interpreter.record("grad", node)
            gradient.node.inputs = roots
        gradients.append(gradient)
    single = isinstance(wrt, Tensor)
    return Items(gradients, "tuple", None if single or inputs else gradients[0])


def _cat(name: str, shaped: bool = False) -> Any:
    """A new tensor of several; `shaped` where it is joined along the dimension that is asked for."""

    def run(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
        parts = [tensor for value in args for tensor in tensors_in(value)]
        if not parts and any(isinstance(value, Unknown) for value in args):
            return UNKNOWN
        for part in parts:
            if part.storage.overwritten:
                check_overwritten(interpreter, part)
            if part.storage.read is not None:
                part.storage.read = interpreter.tape.tick()
        if "out" in keywords:
            _check_out(interpreter, keywords["out"], args, node)
        grad = False if interpreter.grad in ("off", "inference") else any_grad(parts)
        new_tensor = fresh(interpreter, grad, dtypes.common(parts))
        new_tensor.shape = shapes.joined(name, parts, args, keywords) if shaped else None
        new_tensor.packed = layouts.together(parts) or None
        if grad:
            new_tensor.node = interpreter.record(name, node)
            depend_on(new_tensor.node, parts)
        return new_tensor

    return run


def _checkpoint(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if not args:
        return UNKNOWN
    begin = interpreter.tape.tick()
    result = interpreter.call(args[0], args[1:], {}, node)
    roots = [root for tensor in tensors_in(result) if (root := node_of(tensor)) is not None]
    inside = [item for item in interpreter.tape.reached(roots) if item.time > begin and item.block is None]
    # What is not said is True: PyTorch warns that it will be False one day.
    reentrant = contents.truth(keywords.get("use_reentrant", Const(True)))
    saves = {save.time: item.place.node for item in inside for save in item.saves}
    block = Block(begin, interpreter.tape.tick(), reentrant, saves)
    for item in inside:
        item.block = block
    return result


def _meshgrid(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    grids: list[Value] = []
    for value in args[0].items if len(args) == 1 and isinstance(args[0], Items) else args:
        grid = fresh(interpreter, False, value.dtype if isinstance(value, Tensor) else None)
        grid.expanded = True
        grids.append(grid)
    return Items(grids, "tuple")


def _packed(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`pack_padded_sequence`: a copy of what is there, in a PackedSequence."""
    result = _cat("packed")(interpreter, args[:1], {}, node)
    if isinstance(result, Tensor):
        result.sequence = True
    return result if isinstance(result, Value) else UNKNOWN


def _sequence(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`PackedSequence(data, batch_sizes)`: the data itself, no copy."""
    data = args[0] if args else keywords.get("data", UNKNOWN)
    if not isinstance(data, Tensor):
        return UNKNOWN
    tensor = copy.copy(data)
    tensor.sequence = True
    return tensor


def _unpacked(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`pad_packed_sequence`: the sequence and its lengths."""
    whole = _cat("padded")(interpreter, args[:1], {}, node)
    return Items([whole, fresh(interpreter, False, "int")], "tuple")


def _global_hook(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    interpreter.global_hooks.extend(args[:1])
    return PLAIN


def _clip_gradients(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    clipped = list(tensors_in(args[0])) if args else []
    interpreter.note("clip", clipped, node, whole=bool(clipped))
    for tensor in clipped:
        if tensor.grad is not None and tensor.grad.node is not None:
            interpreter.tape.write(tensor.grad, interpreter.place(node), "clip_grad_")
    return fresh(interpreter, False)


def _vmap(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return transformed("vmap", args)


def _sparse_mm(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return run_op(interpreter, "mm", args, keywords, node, label="sparse.mm")


def _embedding(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """With `max_norm` it first shortens the rows it looks up, in place."""
    limit = keywords.get("max_norm", args[3] if len(args) > 3 else NONE)
    weight = args[1] if len(args) > 1 else keywords.get("weight")
    if isinstance(weight, Tensor) and not (isinstance(limit, Const) and limit.value is None):
        interpreter.tape.write(weight, interpreter.place(node), "embedding_renorm_", target=ast.unparse(node.args[1]))  # type: ignore[attr-defined]
    plain = {key: value for key, value in keywords.items() if key == "weight"}
    return run_op(interpreter, "nn.functional.embedding", args[:2], plain, node, label="embedding")


def _scaler(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return Scaler()


def _same(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    return args[0] if args else UNKNOWN


_FUNCTIONS: dict[str, Any] = {
    **{name: _grad_mode(mode) for name, mode in GRAD_MODES.items()},
    "torch.set_grad_enabled": _set_grad_enabled, "torch.autograd.set_grad_enabled": _set_grad_enabled,
    "torch.nn.Parameter": _make_parameter, "torch.nn.parameter.Parameter": _make_parameter,
    "torch.autograd.backward": _autograd_backward, "torch.autograd.grad": _autograd_grad,
    "torch.cat": _cat("CatBackward0", True),
    "torch.concat": _cat("CatBackward0", True), "torch.concatenate": _cat("CatBackward0", True),
    "torch.stack": _cat("StackBackward0", True), "torch.hstack": _cat("CatBackward0"),
    "torch.vstack": _cat("CatBackward0"), "torch.utils.checkpoint.checkpoint": _checkpoint, "torch.compile": _same,
    "torch.jit.script": _same, "torch.nn.parallel.DistributedDataParallel": _same,
    "torch.nn.DataParallel": _same,
    "torch.meshgrid": _meshgrid, "torch.manual_seed": lambda i, a, k, n: PLAIN,
    "torch.is_tensor": lambda i, a, k, n: Const(True) if a and isinstance(a[0], Tensor) and a[0].known else PLAIN,
    "torch.is_grad_enabled": lambda i, a, k, n: Const(i.grad == "on") if i.grad != "unknown" else PLAIN,
    "torch.from_dlpack": _from_dlpack, "torch.utils.dlpack.from_dlpack": _from_dlpack,
    "torch.nn.utils.vector_to_parameters": _vector_to_parameters,
    "torch.func.vjp": vjp, "functorch.vjp": vjp, "torch.sparse_coo_tensor": _cat("sparse_coo_tensor"),
    "torch.nn.utils.clip_grad_norm_": _clip_gradients, "torch.nn.utils.clip_grad_value_": _clip_gradients,
    "torch.nn.functional.affine_grid": _cat("affine_grid"),
    **{
        f"torch.autograd.functional.{name}": differentiated
        for name in ("hessian", "hvp", "jacobian", "vhp", "vjp")
    },
    "torch.nn.modules.module.register_module_forward_hook": _global_hook,
    "torch.func.functional_call": functional_call, "torch.nn.utils.stateless.functional_call": functional_call,
    "torch.sparse.mm": _sparse_mm, "torch.nn.functional.embedding": _embedding, "torch.vmap": _vmap,
    "torch.nn.utils.parametrize.register_parametrization": parametrized.register,
    "torch.nn.utils.parametrize.remove_parametrizations": parametrized.remove,
    "torch.nn.utils.spectral_norm": parametrized.normalize_in_place,
    "torch.nn.utils.weight_norm": parametrized.normalize,
    "torch.nn.utils.remove_spectral_norm": parametrized.remove,
    "torch.nn.utils.remove_weight_norm": parametrized.remove,
    "torch.nn.utils.parametrizations.spectral_norm": parametrized.normalize,
    "torch.nn.utils.parametrizations.weight_norm": parametrized.normalize,
    "torch.nn.utils.parametrizations.orthogonal": parametrized.normalize,
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": _same,
    "torch.nn.utils.rnn.pad_sequence": _cat("padded"), "torch.nn.utils.rnn.pack_padded_sequence": _packed,
    "torch.nn.utils.rnn.pack_sequence": _packed, "torch.nn.utils.rnn.PackedSequence": _sequence,
    "torch.nn.utils.rnn.pad_packed_sequence": _unpacked,
    "torch.nn.utils.parameters_to_vector": _cat("CatBackward0"), "torch.block_diag": _cat("CatBackward0"),
    "torch.column_stack": _cat("CatBackward0"), "torch.dstack": _cat("CatBackward0"),
    "torch.amp.GradScaler": _scaler, "torch.cuda.amp.GradScaler": _scaler, "torch.amp.grad_scaler.GradScaler": _scaler,
    "torch.utils.data.TensorDataset": lambda i, a, k, n: Items(list(a), "tuple"),
    "torch.utils.data.DataLoader": make_loader, "torch.utils.data.Subset": _same,
    "torch.distributions.kl_divergence": divergence, "torch.distributions.kl.kl_divergence": divergence,
    "torch.atleast_1d": _same, "torch.atleast_2d": _same,
}  # fmt: skip
