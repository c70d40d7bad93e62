"""What nn.Module gives to the modules of a project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.knowledge.by_hand import MODULE_RETURNS_ITSELF
from outplace.knowledge.derivatives import averages
from outplace.knowledge.silent_rules.gradients import HOOK_WRITES_GRADIENT
from outplace.knowledge.silent_rules.two_names import STATE_DICT_BY_REFERENCE
from outplace.knowledge.syntax_trees import walk
from outplace.source import contents
from outplace.source.graph import Hit
from outplace.source.joins import options
from outplace.source.torch_model.layers import (
    CONTAINERS,
    after_forward,
    before_forward,
    fill_container,
    make_layer,
    no_child,
    run_child,
    run_layer,
)
from outplace.source.torch_model.methods import detached
from outplace.source.torch_model.optimizers import forget_gradients, make_optimizer
from outplace.source.torch_model.tensors import fresh, node_of, parameter, set_requires_grad
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Bound,
    Class,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Keywords,
    Layer,
    StateDict,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def run_module(interpreter: Interpreter, module: Instance, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """Calls a module of the project: its forward, or that of the torch class it is built on."""
    forward, own = module.cls.find("forward"), module.names.get("forward")
    args = before_forward(interpreter, module, args, node) if module.pre_hooks else args
    if isinstance(own, (Function, Bound)):  # `module.forward = patched`
        result = interpreter.call(own, args, keywords, node)
    elif isinstance(forward, Function):
        result = interpreter.call_function(forward, [module, *args], keywords, node)
    else:
        result = _base_forward(interpreter, module, args, keywords, node)
    return after_forward(interpreter, module, args, result, node)


def _base_forward(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """The forward of the torch class that a project class is built on."""
    if not isinstance(module, Instance):
        return UNKNOWN
    base = module.cls.torch_base() or ""
    if base == "torch.nn.Sequential":
        value: Value = args[0] if args else UNKNOWN
        for child in children_of(module).values():
            value = run_child(interpreter, child, value, node)
        return value
    layer = make_layer(interpreter, base, [], {})
    if not isinstance(layer, Layer) or base in CONTAINERS or base == "torch.nn.Module":
        return UNKNOWN
    layer.state.update({name: own for name in layer.state if isinstance(own := module.names.get(name), Tensor)})
    training = module.names.get("training")
    layer.training = contents.truth(training) if training is not None else None
    return run_layer(interpreter, layer, args, keywords, node)


def children_of(module: Value) -> dict[str, Value]:
    """The modules and containers of modules directly inside this one."""
    if isinstance(module, Layer):
        return module.children
    if isinstance(module, Instance):
        return {
            name: value
            for name, value in module.names.items()
            if isinstance(value, (Instance, Layer)) and is_module(value)
        } | _unseen_children(module)
    return {}


def _unseen_children(module: Instance) -> dict[str, Value]:
    """Those that unknown code has built (see `unseen`)."""
    strangers = {name: value for name, value in module.names.items() if isinstance(value, Unknown)}
    networks = {name: getattr(value, "network", None) for name, value in strangers.items()}
    return {name: network for name, network in networks.items() if network is not None}


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


def note_shallow(module: Value) -> None:
    """`copy.copy(module)`: another module, with the very same parameters."""
    for tensor in parameters_of(module) if is_module(module) else ():
        tensor.shallow = True


def object_attribute(interpreter: Interpreter, holder: Instance, base: str, name: str) -> Value:
    """An attribute of an object whose class is built on a torch class, where the project defines none."""
    if base.startswith("torch.nn.") and base in CONTAINERS and name in holder.names:
        return holder.names[name]
    if interpreter.assumes and base.startswith("torch.nn.") and name not in _OF_MODULES:
        return _not_built(interpreter, holder, name)
    return Bound(name, holder)


def _not_built(interpreter: Interpreter, holder: Instance, name: str) -> Value:
    """An attribute that a constructor sets where it was not followed, the same whenever it is read."""
    tensor: Value = parameter(interpreter) if name in ("weight", "bias") else Unknown()
    init = holder.cls.find("__init__")
    value = _assigned(init, name) if isinstance(init, Function) else None
    if isinstance(init, Function) and value is not None:
        built = interpreter.eval_within(init, holder, value)
        tensor = Unknown() if built is UNKNOWN else built
    holder.names[name] = tensor
    return tensor


def _assigned(init: Function, name: str) -> ast.expr | None:
    """What a constructor assigns to `self.name` first."""
    if init.assigned is None:
        init.assigned = {}
        for node in walk(init.node):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                        init.assigned.setdefault(target.attr, node.value)
    return init.assigned.get(name)


def super_attribute(receiver: Value, base: str, name: str) -> Value:
    """`super().name` where torch is next in line."""
    if name == "__init__" and base in CONTAINERS and isinstance(receiver, Instance):
        return Bound("__init_container__", receiver)
    if name == "__init__" and base == "torch.optim.Optimizer":
        return Bound("__init_optimizer__", receiver)
    if name in ("forward", "__call__") and base.startswith("torch.nn."):
        return Bound("__forward__", receiver)
    return Bound(name, receiver)


def init_container(made: Instance, base: str, args: Args) -> None:
    """A subclass of Sequential without an `__init__` of its own."""
    if base in CONTAINERS:
        layer = Layer(base, {})
        fill_container(layer, args)
        made.names.update(layer.children)


def construct(cls: Class, base: str, args: Args, keywords: Keywords) -> Value | None:
    """An object of a project class that torch treats in its own way: an optimizer that inherits its step."""
    if base.startswith("torch.optim.") and base != "torch.optim.Optimizer" and cls.find("step") is None:
        return make_optimizer(f"torch.optim.{cls.name}", args, keywords)
    return None


def own_state(interpreter: Interpreter, base: str) -> dict[str, Value]:
    """The parameters that a project class inherits from the torch class it is built on."""
    if not base.startswith("torch.nn.") or base in CONTAINERS or base == "torch.nn.Module":
        return {}
    layer = make_layer(interpreter, base, [], {})
    return dict(layer.state) if isinstance(layer, Layer) else {}


def module_method(
    interpreter: Interpreter, module: Value, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value | None:
    """A method that nn.Module provides."""
    if not is_module(module):
        return None
    run = _MODULE_METHODS.get(name)
    if run is not None:
        result: Value = run(interpreter, module, args, keywords, node)
        return result
    if name in MODULE_RETURNS_ITSELF:
        if name == "apply" and args:
            for child in (module, *_all_modules(module)):
                interpreter.call(args[0], [child], {}, node)
        return module
    if name == "reset_parameters":
        for tensor in parameters_of(module):
            interpreter.tape.write(tensor, interpreter.place(node), name, step=True)
    if name == "zero_grad":
        forget_gradients(interpreter, parameters_of(module), args, keywords, node)
    return NONE if name in ("__init__", "zero_grad", "reset_parameters") else None


def forget_state(interpreter: Interpreter, module: Value) -> None:
    """Unknown code was given the module: the graphs of its attributes may be gone."""
    if is_module(module):
        for item in [item for item in (module, *_all_modules(module)) if isinstance(item, Instance)]:
            for name, value in list(item.names.items()):
                carried = [option for option in options(value) if isinstance(option, Tensor) and not option.parameter]
                if any(node_of(tensor) is not None for tensor in carried):
                    interpreter.set_name(item.names, name, UNKNOWN)


def _all_modules(module: Value) -> list[Value]:
    return [child for _, child in _named_modules(module)]


def _named_modules(module: Value, prefix: str = "", seen: set[int] | None = None) -> list[tuple[str, Value]]:
    """All that is inside, each once: a module may hold the one that holds it."""
    seen = {id(module)} if seen is None else seen
    found: list[tuple[str, Value]] = []
    for name, child in children_of(module).items():
        if id(child) not in seen:
            seen.add(id(child))
            found.extend([(prefix + name, child), *_named_modules(child, f"{prefix}{name}.", seen)])
    return found


def _train(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    argument = args[0] if args else keywords.get("mode", Const(True))
    known = contents.truth(argument)
    if isinstance(module, Layer):
        module.training = known
    elif isinstance(module, Instance):
        module.names["training"] = PLAIN if known is None else Const(known)
    if id(module) not in interpreter.training:
        interpreter.training.add(id(module))
        for child in children_of(module).values():
            _set_training(interpreter, child, argument, node)
        interpreter.training.discard(id(module))
    return module


def _eval(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    _set_training(interpreter, module, Const(False), node)
    return module


def _set_training(interpreter: Interpreter, module: Value, mode: Value, node: ast.AST) -> None:
    """Runs the module's `train`, its own one where it has one: weights may be merged there."""
    own = module.cls.find("train") if isinstance(module, Instance) else None
    if isinstance(own, Function):
        interpreter.call_function(own, [module, mode], {}, node)
    else:
        _train(interpreter, module, [mode], {}, node)


def _module_requires_grad(
    interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST
) -> Value:
    wanted = args[0] if args else Const(True)
    for tensor in parameters_of(module):
        set_requires_grad(interpreter, tensor, wanted.value if isinstance(wanted, Const) else None)
    return module


def _state_dict(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    kept: dict[Any, Value] = {
        name: detached(interpreter, tensor, [], {}, node) for name, tensor in tensors_of(module).items()
    }
    for tensor in tensors_of(module).values():
        tensor.storage.averaged_read = bool(tensor.storage.averaged)
    return StateDict(kept, interpreter.tape.tick(), id(module))


def _load_state_dict(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    named = tensors_of(module)
    own = list(named.values())
    for tensor in own:
        if not tensor.storage.averaged_read:
            tensor.storage.averaged.clear()  # what it had become is gone
    dictionaries = [kept for kept in options(args[0]) if isinstance(kept, Dictionary)] if args else []
    for kept in dictionaries:
        _check_kept(interpreter, kept, own)
        if isinstance(kept, StateDict) and kept.of != id(module):
            _note_lent(kept)
    copied_onto_themselves = {id(tensor.storage) for kept in dictionaries for tensor in _tensors_kept(kept)}
    whole = not keywords.keys() & {"assign", "strict"}
    for name, tensor in named.items():
        if id(tensor.storage) not in copied_onto_themselves:
            loaded = whole and all(name in kept.items or kept.rest is not None for kept in dictionaries)
            if tensor.expanded and loaded:
                interpreter.hit("expanded", node, tensor.certain and bool(tensor.repeated), "loaded")
            interpreter.tape.write(tensor, interpreter.place(node), "load_state_dict", step=True)
    return NONE


def _note_lent(kept: StateDict) -> None:
    """`total[name] += value`, `total[name] /= n`, where the total is the state of a model: another one loads it."""
    for tensor in _tensors_kept(kept):
        written = [write for write in tensor.storage.writes if write.time > kept.since and not write.step]
        written = [write for write in written if _is_to_an_entry(write.place.node)]
        if averages(write.operation for write in written):
            tensor.storage.averaged += written


def _is_to_an_entry(write: ast.AST) -> bool:
    """`total[name] += value`, `total[name].add_(value)`."""
    target = write.target if isinstance(write, ast.AugAssign) else getattr(write, "func", None)
    return isinstance(target.value if isinstance(target, ast.Attribute) else target, ast.Subscript)


def _tensors_kept(kept: Dictionary) -> list[Tensor]:
    values = (*kept.items.values(), *(options(kept.rest) if kept.rest is not None else ()))
    return [tensor for tensor in values if isinstance(tensor, Tensor)]


def _check_kept(interpreter: Interpreter, kept: Dictionary, own: list[Tensor]) -> None:
    """The kept dict holds the module's own tensors, and they were stepped since: it kept nothing."""
    mine = {id(tensor.storage) for tensor in own}
    for tensor in _tensors_kept(kept):
        if id(tensor.storage) in mine and (tensor.certain or tensor.dtype is None):  # `v.cpu()`; `v.double()` is a copy
            since = kept.since if isinstance(kept, StateDict) else tensor.since
            for write in tensor.storage.writes:
                if write.time > since and write.step:
                    hit = Hit.silent(STATE_DICT_BY_REFERENCE, write, write.place, tensor.certain)
                    interpreter.tape.hits.append(hit)


def _register_buffer(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if len(args) > 1 and isinstance(args[0], Const) and isinstance(module, Instance):
        interpreter.set_name(module.names, str(args[0].value), args[1])
        names = module.names.setdefault("__buffers__", Dictionary())
        if isinstance(names, Dictionary):
            names.items[str(args[0].value)] = args[1]
    return NONE


def _register_parameter(
    interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST
) -> Value:
    if len(args) > 1 and isinstance(args[0], Const) and isinstance(module, Instance):
        interpreter.set_name(module.names, str(args[0].value), args[1])
    return NONE


def _add_module(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`add_module(name, child)`; under a name that is not known, a container still runs it at its place."""
    if len(args) < 2:
        args = [*args, *keywords.values()]
    if isinstance(module, Instance):
        return _register_parameter(interpreter, module, args, {}, node)
    if isinstance(module, Layer) and len(args) > 1:
        name = str(args[0].value) if isinstance(args[0], Const) else f"*{len(module.children)}"
        module.children.setdefault(name, no_child())  # on the other arms of a branch
        interpreter.set_name(module.children, name, args[1])
    return NONE


def _hook(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if isinstance(module, (Instance, Layer)):
        module.hooked = True
    if args and isinstance(args[0], (Function, Bound)):
        gradients = [Items([fresh(interpreter)], "tuple") for _ in range(2)]
        for gradient in gradients:
            gradient.items[0].gradient = HOOK_WRITES_GRADIENT, False  # type: ignore[attr-defined]
        interpreter.call(args[0], [module, *gradients], {}, node)
    return PLAIN


def _forward_hook(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if isinstance(module, (Instance, Layer)) and args:
        module.forward_hooks.append(args[0])
    return PLAIN


def _forward_pre_hook(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if isinstance(module, (Instance, Layer)) and args:
        module.pre_hooks.append(args[0])
    return PLAIN


def _init_container(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    if isinstance(module, Instance):
        init_container(module, module.cls.torch_base() or "", args)
    return NONE


def _append(interpreter: Interpreter, module: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    holder = module.children if isinstance(module, Layer) else module.names if isinstance(module, Instance) else {}
    items = args[-1:] if args else []
    if isinstance(items[0] if items else None, Items):
        items = contents.spread(items[0])
    for item in items:
        holder[str(len(holder))] = item
    return module


_OTHER_METHODS = {
    "cuda", "to", "cpu", "half", "float", "double", "bfloat16", "apply", "share_memory", "type", "zero_grad",
    "__init__", "reset_parameters", "forward", "__call__", "extra_repr", "get_parameter", "get_submodule", "get_buffer",
    "xpu",     "register_backward_hook", "named_buffers", "__dict__", "_modules", "_parameters", "_buffers", "compile",
}  # fmt: skip

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
        [Items([Const(name), child], "tuple") for name, child in [("", m), *_named_modules(m)]]
    ),
    "items": lambda i, m, a, k, n: Items(
        [Items([Const(name), child], "tuple") for name, child in children_of(m).items()]
    ),
    "values": lambda i, m, a, k, n: Items(list(children_of(m).values())),
    "keys": lambda i, m, a, k, n: Items([Const(name) for name in children_of(m)]),
    "train": _train, "eval": _eval, "requires_grad_": _module_requires_grad, "state_dict": _state_dict,
    "load_state_dict": _load_state_dict, "register_buffer": _register_buffer, "register_parameter": _register_parameter,
    "register_full_backward_hook": _hook, "add_module": _add_module, "register_module": _add_module,
    "__init_container__": _init_container, "__forward__": _base_forward, "append": _append,
    "extend": _append, "insert": _append,
    "register_forward_hook": _forward_hook,
    "register_forward_pre_hook": _forward_pre_hook,
}  # fmt: skip
_OF_MODULES = _MODULE_METHODS.keys() | _OTHER_METHODS
"""What every module has."""
