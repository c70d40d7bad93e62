"""What is assumed of code that is analysed without its callers: arguments require grad, unknown layers are typical.

A run with `Interpreter.assumes` set goes by these hypotheses. What breaks in it is a warning that names the hypothesis;
an error is what breaks without one. The hypotheses:

- a tensor argument requires grad and is no leaf, unless its name says that it needs no gradient (masks, indices,
  labels);
- whatever computed it may save its result, if nobody in the file calls the function (see `_may_be_kept`);
- an argument may be None if the function, its annotation or its default says so;
- an unknown module has parameters, saves its input as most layers do, and returns a new tensor; one that is built with
  an activation saves its result;
- an unknown function returns new tensors that depend on its arguments;
- what these return may hold tensors under names: `outputs.logits`;
- `weight` and `bias` of an unknown module are parameters;
- what is asked for its parameters is a network, and its backward needs its weights (see `unseen`);
- a constructor is given the classes, functions and modules that its parameters have as defaults.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from outplace.knowledge.syntax_trees import text_of, walk
from outplace.knowledge.traits import is_of_tensors, only_reshapes
from outplace.source import torch_model, unseen
from outplace.source.annotations import named_class, says_tensor
from outplace.source.class_bases import gathers_for, has_unknown_base
from outplace.source.frames import Frame
from outplace.source.graph import ARGUMENT, Hit, Node, Save, Storage
from outplace.source.heuristics import (
    asks_for_writes,
    builds_activation,
    is_activation_name,
    is_layer_name,
    is_raw_data,
    saves_nothing_by_name,
    takes_images,
    takes_no_gradient,
)
from outplace.source.joins import options
from outplace.source.level_lists import given_by_level
from outplace.source.unseen import Unseen
from outplace.source.values import (
    NONE,
    UNKNOWN,
    Args,
    Class,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Keywords,
    Layer,
    Outside,
    Partial,
    Plain,
    Tensor,
    Torch,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_KEPT_BEFORE = "kept before"
"""How an argument is saved that the operation which computed it may have saved."""

KINDS = {"saved", "stepped", "multi-view", "leaf", "leaf-view", "expanded", "nograd-view", "custom-view"}
"""The kinds of bugs that can depend on a hypothesis."""
OF_LEAVES = {"leaf", "leaf-view"}
"""Those that raise wherever grad mode is on, also where nothing is trained through."""


# Arguments -----------------------------------------------------------------------------------------------------------


def arguments(interpreter: Interpreter, function: Function, skipped: int, called: bool) -> list[Value]:
    """The assumed arguments of a function, but for the first ones; `called` says that its own file calls it."""
    spec = function.node.args
    places = [*spec.posonlyargs, *spec.args]
    defaults = [None] * (len(places) - len(spec.defaults)) + list(spec.defaults)
    uses = _Uses(function.node)
    if function.by_level is None:
        function.by_level = given_by_level(function)
    uses.sequences |= function.by_level
    uses.tensors -= function.by_level
    is_forward = getattr(function.node, "name", "").startswith("forward")
    values = [
        _argument(interpreter, place, default, uses, is_forward)
        for place, default in list(zip(places, defaults, strict=True))[skipped:]
    ]
    for tensor in itertools.chain(*map(_tensors, values)) if not called and _may_be_kept(function) else ():
        if tensor.node is not None and not is_raw_data(tensor.node.place.node.arg):  # type: ignore[attr-defined]
            tensor.node.saves = [Save(tensor.storage, tensor.since, _KEPT_BEFORE, True)]
    return values


def _may_be_kept(function: Function) -> bool:
    """May the operations that computed its arguments have saved them?

    Not if it is called for its writes, or gets data or copies.
    """
    node, owner = function.node, function.owner
    if isinstance(node, ast.Lambda):
        return True
    if owner is not None:
        if owner.torch_base() is None and not has_unknown_base(owner):
            return False  # of an object that is no module it is seldom known what it is given
        init = owner.find("__init__")
        is_first = node.name == "forward" and isinstance(init, Function) and takes_images(init.node)
        if is_first or gathers_for(owner, node.name):
            return False
    ends = (part for part in walk(node) if isinstance(part, (ast.Return, ast.Yield, ast.YieldFrom)))
    return any(not isinstance(end, ast.Return) or end.value is not None for end in ends)


def _argument(
    interpreter: Interpreter, argument: ast.arg, default: ast.expr | None, uses: _Uses, is_forward: bool
) -> Value:
    says, name = says_tensor(argument.annotation), argument.arg
    if uses.takes_network(argument):
        return unseen.as_network(interpreter, Unseen())
    if name in uses.called:
        return Unseen()
    if asks_for_writes(name):
        return Const(False) if default is None or not _is_none(default) else NONE
    if says is False and argument.annotation is not None:
        return _not_a_tensor(interpreter, argument, text_of(argument.annotation), uses)
    numbers = default is not None and not _is_none(default)
    if says is None and (numbers or _is_other(argument.annotation)):
        return Unseen()
    if says is None and name in uses.sequences and name not in uses.tensors:
        return Items([], "list", rest=_tensor(interpreter, argument, True))
    result = _tensor(interpreter, argument, says is True or name in uses.tensors or (is_forward and default is None))
    result.is_none = None if name in uses.optional or _may_be_none(default, argument.annotation) else False
    return result


def _may_be_none(default: ast.expr | None, annotation: ast.expr | None) -> bool:
    """Is None its default, or is it annotated as `Optional[Tensor]` or `Tensor | None`?"""
    if default is not None and _is_none(default):
        return True
    return annotation is not None and _NONE.search(text_of(annotation)) is not None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _not_a_tensor(interpreter: Interpreter, argument: ast.arg, annotation: str, uses: _Uses) -> Value:
    """An argument that is annotated as something else: tensors in a dict or a list, or numbers."""
    if _TENSOR_DICT.search(annotation):
        keys = uses.keys.get(argument.arg, ["*0", "*1"])
        return Dictionary({key: _tensor(interpreter, argument, True) for key in keys}, UNKNOWN)
    if "Tensor" in annotation and _MAPPING.match(annotation):
        return _tensor(interpreter, argument, False)  # its items are tensors (see `named_part`)
    if "Tensor" in annotation and not _NO_LIST.search(annotation):
        return Items([], "list", rest=_tensor(interpreter, argument, True))
    return Plain() if _NUMBERS.fullmatch(annotation) else Unseen()


_MODULE = re.compile(r"(?:torch\.)?nn\.(?!Parameter|Module(?:List|Dict))\w+|(?:\w+\.)?Module")
_MAPPING = re.compile("(?i)(?:optional.|ordered)?(?:dict|mapping)")
_TENSOR_DICT = re.compile(r"(?i)(?:dict|mapping)\[str, (?:torch\.)?tensor\]")
_NONE = re.compile(r"\b(?:Optional|None)\b")
_NO_LIST = re.compile("(?i)dict|mapping|callable")
_NUMBERS = re.compile(r"(?:int|float|bool|str|[Tt]uple|[Ll]ist|Optional|None|[\[\]|,. ])+")


def _is_other(annotation: ast.expr | None) -> bool:
    """Is it annotated as something of the program's own? (A string or a name that is no tensor.)"""
    return isinstance(annotation, (ast.Name, ast.Attribute)) and not text_of(annotation).endswith(("Any", "T"))


def _tensor(interpreter: Interpreter, argument: ast.arg, known: bool) -> Tensor:
    tensor = Tensor(Storage(), None, known=known)
    tensor.since = interpreter.tape.tick()
    interpreter.tape.given.add(tensor.storage)
    if not takes_no_gradient(argument.arg):
        tensor.requires_grad, tensor.family.grad = True, True
        tensor.node = Node(ARGUMENT, interpreter.place(argument), tensor.since, ())
        tensor.node.assumed = f"{argument.arg} requires grad"
    return tensor


class _Uses:
    """How a function uses its names: as tensors, as sequences, as modules or functions, as what may be None."""

    def __init__(self, function: ast.AST) -> None:
        self.tensors: set[str] = set()
        self.sequences: set[str] = set()
        self.called: set[str] = set()
        self.networks: set[str] = set()
        self.optional: set[str] = set()
        self.keys: dict[str, list[str]] = {}
        for node in walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if is_of_tensors(node.attr):
                    self.tensors.add(node.value.id)
                elif unseen.is_asked_of_networks(node.attr):
                    self.networks.add(node.value.id)
                elif node.attr in ("step", "zero_grad"):
                    self.called.add(node.value.id)
            elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                key = node.slice.value if isinstance(node.slice, ast.Constant) else None
                if isinstance(key, str):
                    self.keys.setdefault(node.value.id, []).append(key)
            elif isinstance(node, ast.BinOp):
                self.tensors.update(*map(_named, (node.left, node.right)))
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                self.optional.update(_named(node.left))
            elif isinstance(node, (ast.For, ast.comprehension)):
                self.sequences.update(_iterates_over(node.iter))
            elif isinstance(node, ast.Starred) or _is_unpacking(node):
                self.sequences.update(_named(node.value))  # type: ignore[attr-defined]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self.called.add(node.func.id)
                self.sequences.update(_iterates_over(node) if node.func.id == "len" else ())

    def takes_network(self, argument: ast.arg) -> bool:
        """Is it asked for what only networks have, or annotated as a module: `nn.Module`, `nn.Conv2d`?"""
        says = text_of(argument.annotation) if argument.annotation is not None else ""
        return argument.arg in self.networks or _MODULE.fullmatch(says) is not None


def _is_unpacking(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)


def _named(node: ast.expr) -> list[str]:
    return [node.id] if isinstance(node, ast.Name) else []


def _iterates_over(iterable: ast.expr) -> Iterator[str]:
    if isinstance(iterable, ast.Name):
        yield iterable.id
    elif isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name):
        yield from (argument.id for argument in iterable.args if isinstance(argument, ast.Name))


def constructor_arguments(interpreter: Interpreter, init: Function) -> list[Value]:
    """What a constructor is assumed to be given: classes, functions and modules by default, else anything.

    Of the classes that an annotation names it is the first one.
    """
    spec = init.node.args
    count = len(spec.posonlyargs) + len(spec.args) - 1
    arguments = [*spec.posonlyargs, *spec.args][1:]
    values: list[Value] = [_of_class(interpreter, init, argument.annotation) for argument in arguments]
    names = [argument.arg for argument in arguments]
    values = [Const(False) if asks_for_writes(name) else value for name, value in zip(names, values, strict=True)]
    for place, default in zip(range(count - 1, -1, -1), reversed(init.defaults), strict=False):
        asked_for = isinstance(default, Const) and asks_for_writes(names[place])
        if asked_for or isinstance(default, (Class, Function, Torch, Layer, Instance, Partial, Outside)):
            values[place] = default
    return values


def _of_class(interpreter: Interpreter, init: Function, annotation: ast.expr | None) -> Value:
    named = named_class(annotation)
    if named is None:
        return Unseen()
    node, several = named
    frame = Frame(init.module, init.scope, init.name, init)
    found: list[Value] = []
    interpreter.in_frame(frame, lambda: found.append(interpreter.eval(node)))
    if not isinstance(found[0], Class):
        return Unseen()
    return Items([], "list", rest=found[0]) if several else found[0]


# What is not known ---------------------------------------------------------------------------------------------------


def call_unknown(interpreter: Interpreter, function: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """A call of something that is not known: with tensors, a typical layer or a function of them."""
    made = unseen.made_of(interpreter, function, args, keywords, node)
    if made is not None:
        return made
    if isinstance(function, Outside) and function.name.split(".")[0] in sys.stdlib_module_names:
        return UNKNOWN
    tensors = [tensor for value in (*args, *keywords.values()) for tensor in _tensors(value)]
    if not isinstance(node, ast.Call) or not (tensors or _is_given_a_batch(node) or unseen.is_run(function, args)):
        return Unseen(activates=_has_activation(keywords))
    new_tensor = Tensor(Storage(), None, known=False, dtype="float")
    new_tensor.since = interpreter.tape.tick()
    activates = getattr(function, "activates", False)
    layer = _layer_name(node.func) if isinstance(function, Unknown) else None
    layer = text_of(node.func)[:40] if activates else layer
    grads = [tensor.requires_grad for tensor in tensors]
    if interpreter.grad != "on" or not (layer or True in grads or unseen.weights_of(function)):
        new_tensor.requires_grad = False if interpreter.grad in ("off", "inference") else None
        return new_tensor
    new_tensor.requires_grad = new_tensor.family.grad = True
    new_tensor.node = interpreter.record(layer or text_of(node.func)[:40], node)
    _connect(new_tensor.node, tensors, new_tensor)
    if layer is not None:
        _assume_saves(interpreter, new_tensor.node, layer, new_tensor, args, activates)
    unseen.add_weights(interpreter, function, new_tensor.node)
    return new_tensor


def _has_activation(keywords: Keywords) -> bool:
    """Is a layer built with an activation that is known?"""
    acts = [value for name, value in keywords.items() if builds_activation(name)]
    return any(not (isinstance(act, Unknown) or (isinstance(act, Const) and not act.value)) for act in acts)


def _connect(node: Node, inputs: list[Tensor], output: Tensor) -> None:
    """Puts a node into the graph, between these tensors."""
    node.inputs = [before for tensor in inputs if (before := _node_of(tensor)) is not None]
    node.leaves = [tensor for tensor in inputs if tensor.leaf and tensor.requires_grad]
    node.outputs.append(output.storage)


def _assume_saves(interpreter: Interpreter, node: Node, layer: str, made: Tensor, args: Args, activates: bool) -> None:
    """What an unknown layer saves: an activation its result, most others their inputs."""
    if activates or is_activation_name(layer):
        node.assumed = f"`{layer}` keeps its result for backward, as ReLU does"
        node.saves = [Save(made.storage, interpreter.tape.tick(), "result", True)]
    elif not saves_nothing_by_name(layer):
        node.assumed = f"`{layer}` keeps its input for backward, as most layers do"
        node.saves = [
            Save(value.storage, made.since, "input", value.certain, anchor=value.anchor)
            for value in args
            if isinstance(value, Tensor) and value.requires_grad
        ]


def _is_given_a_batch(node: ast.Call) -> bool:
    """Does it run a module on whatever a batch holds: `model(**inputs)`?"""
    return _layer_name(node.func) is not None and any(keyword.arg is None for keyword in node.keywords)


def _layer_name(function: ast.expr) -> str | None:
    """The text of a call that runs a module: `self.conv`, `self.blocks[i]`, `layer`; None for functions."""
    if isinstance(function, ast.Subscript):
        return _layer_name(function.value)
    if isinstance(function, ast.Attribute) and isinstance(function.value, (ast.Name, ast.Attribute, ast.Subscript)):
        root: ast.expr = function
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        own = isinstance(root, ast.Name) and root.id == "self"
        return text_of(function) if own and not function.attr.startswith("_") else None
    if isinstance(function, ast.Name) and is_layer_name(function.id):
        return function.id
    return None


def _tensors(value: Value) -> Iterator[Tensor]:
    for option in options(value):
        if isinstance(option, Tensor):
            yield option
        elif isinstance(option, Items):
            for item in (*option.items, *([option.rest] if option.rest is not None else [])):
                yield from (inner for inner in options(item) if isinstance(inner, Tensor))
        elif isinstance(option, Dictionary):
            for item in option.items.values():
                yield from (inner for inner in options(item) if isinstance(inner, Tensor))


def _node_of(tensor: Tensor) -> Node | None:
    newer = tensor.family.since > tensor.since and tensor.family.node is not None
    return tensor.family.node if newer else tensor.node


def is_output(interpreter: Interpreter, whole: Tensor, name: str) -> bool:
    """Is `whole.name` one of several tensors that something unknown has returned together, as in `outputs.logits`?"""
    if not interpreter.assumes or whole.known or name.endswith("_"):
        return False
    return not torch_model.is_tensor_method(name)


def part_of(interpreter: Interpreter, whole: Tensor) -> Tensor:
    """One of several tensors that something unknown has returned together."""
    tensor = Tensor(Storage(), whole.requires_grad, whole.node, known=False, dtype=whole.dtype)
    tensor.since, tensor.family.grad = interpreter.tape.tick(), whole.requires_grad
    interpreter.tape.given.add(tensor.storage)
    if whole.node is not None and whole.node.operation == ARGUMENT:
        tensor.node = Node(ARGUMENT, whole.node.place, tensor.since, ())
        tensor.node.assumed = whole.node.assumed
        tensor.node.saves = [Save(tensor.storage, tensor.since, _KEPT_BEFORE, True)] if whole.node.saves else []
    return tensor


def named_part(interpreter: Interpreter, whole: Tensor, name: str) -> Tensor:
    """`batch["image"]`, `outputs.last_hidden_state`: one of the tensors in it, the same whenever it is asked for."""
    key = (id(whole), name)
    if key not in interpreter.parts:
        interpreter.parts[key] = whole, part_of(interpreter, whole)
    part: Tensor = interpreter.parts[key][1]
    return part


# What is told --------------------------------------------------------------------------------------------------------


def only_assumed(hits: list[Hit], sure: list[Hit]) -> list[Hit]:
    """The hits that need a hypothesis, as warnings that name it."""
    known = {(hit.kind, id(hit.place.node)) for hit in sure}
    found = [hit for hit in hits if hit.kind in KINDS and (hit.kind, id(hit.place.node)) not in known]
    found = [hit for hit in found if not (_is_of_caller(hit) and _is_asked_for(hit))]
    found.sort(key=_is_of_caller)  # a reason that can be seen goes before one that cannot
    return [replace(hit, certain=False, hypothesis=_hypothesis(hit)) for hit in found]


def _is_of_caller(hit: Hit) -> bool:
    """Is it only known to break if the caller's own computation keeps what it hands in?"""
    return hit.save is not None and hit.save.saved_as == _KEPT_BEFORE


def _is_asked_for(hit: Hit) -> bool:
    """An activation that works in place, at the beginning of a block, is known by who builds the block.

    A write that only changes the shape of what it was handed (`x.unsqueeze_(0)`) is known by who reads the shape.
    """
    assert hit.write is not None
    return only_reshapes(hit.write.operation) or not (
        hit.write.operation.endswith(("_", "=")) or hit.write.operation.startswith("item assignment")
    )


def _hypothesis(hit: Hit) -> str:
    """The nearest hypothesis that the node depends on."""
    if hit.kind in OF_LEAVES:
        return "it is a parameter"
    if _is_of_caller(hit) and hit.node is not None:
        return f"what computed {hit.node.place.node.arg} keeps its result for backward, as ReLU does"  # type: ignore[attr-defined]
    if hit.kind == "stepped" and hit.node is not None and not hit.node.operation.endswith("Backward0"):
        return f"the backward of `{hit.node.operation}` needs its weights"
    waiting, seen = [hit.node] if hit.node is not None else [], set[int]()
    for node in waiting:
        if node.assumed and (node is hit.node or node.operation == ARGUMENT):
            return node.assumed
        waiting.extend(before for before in node.inputs if id(before) not in seen)
        seen.update(map(id, node.inputs))
    return "this is trained through"
