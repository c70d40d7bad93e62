"""Optimizers and the parameters they step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outplace.knowledge.silent_rules.lost import DATA_ASSIGN_DETACHES, PARAMETER_REPLACED
from outplace.knowledge.silent_rules.two_names import OPTIMIZER_STATE_BY_REFERENCE, SHALLOW_MODEL_COPY
from outplace.source.graph import Cut, Hit, Storage, Write, compatible
from outplace.source.holders import note_step
from outplace.source.joins import options
from outplace.source.torch_model.leaf_aliases import note_overwritten
from outplace.source.torch_model.tensors import node_of
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Const,
    Dictionary,
    Function,
    Items,
    Keywords,
    Layer,
    Optimizer,
    Replaced,
    StateDict,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def make_optimizer(name: str, args: Args, keywords: Keywords) -> Value:
    """An optimizer and the parameters it was given."""
    if ".lr_scheduler." in name or "swa_utils" in name:
        return PLAIN
    source = args[0] if args else keywords.get("params", UNKNOWN)
    kind = name.rpartition(".")[2]
    return Optimizer(kind, _held(source), _is_whole(source), _has_momenta(kind, args, keywords))


def _has_momenta(kind: str, args: Args, keywords: Keywords) -> bool:
    """Does it keep tensors from step to step? SGD does so only with a momentum."""
    momentum = args[2] if len(args) > 2 else keywords.get("momentum", Const(0))
    return kind != "SGD" or not (isinstance(momentum, Const) and not momentum.value)


def _held(source: Value) -> list[Tensor]:
    parameters = list({id(tensor): tensor for tensor in parameters_in(source)}.values())
    for tensor in parameters:
        tensor.held = True
    return parameters


def parameters_in(value: Value) -> Iterator[Tensor]:
    """The parameters that an optimizer is given, groups or not."""
    for option in options(value):
        if isinstance(option, Tensor):
            yield option
        elif isinstance(option, Items):
            for item in (*option.items, *([option.rest] if option.rest is not None else [])):
                yield from parameters_in(item)
        elif isinstance(option, Dictionary):
            yield from parameters_in(option.items.get("params", UNKNOWN))


def _is_whole(value: Value) -> bool:
    """Are all parameters that an optimizer is given known?"""
    if isinstance(value, Items):
        return value.rest is None and all(map(_is_whole, value.items))
    if isinstance(value, Dictionary):
        return _is_whole(value.items.get("params", UNKNOWN))
    return isinstance(value, Tensor)


def optimizer_method(
    interpreter: Interpreter,
    optimizer: Optimizer,
    name: str,
    args: Args,
    keywords: Keywords,
    node: ast.AST,
) -> Value:
    """A method of an optimizer; `step` writes its parameters."""
    if name == "step":
        if args and isinstance(args[0], Function):
            interpreter.call(args[0], [], {}, node)
        _step(interpreter, optimizer, node)
        return NONE
    if name == "state_dict":
        return _state_dict(interpreter, optimizer)
    if name == "load_state_dict" and args:
        _check_own_state(interpreter, optimizer, args[0])
        return NONE
    if name == "zero_grad":
        forget_gradients(interpreter, optimizer.parameters, args, keywords, node)
    if name == "add_param_group" and args:
        optimizer.parameters.extend(_held(args[0]))
        optimizer.whole = optimizer.whole and _is_whole(args[0])
    return NONE


def _step(interpreter: Interpreter, optimizer: Optimizer, node: ast.AST) -> None:
    """Writes the parameters that have a gradient; all, where the backward could not be followed."""
    tape = interpreter.tape
    interpreter.note("step", optimizer.parameters, node, optimizer.whole)
    trained = [tensor for tensor in optimizer.parameters if tensor.requires_grad is not False]
    guessing = not tape.went_backward or (tape.opaque and not any(tensor.has_grad for tensor in trained))
    _check_cut(interpreter, trained)
    _step_momenta(interpreter, optimizer, node)
    stepped: list[tuple[Tensor, Write]] = []
    for tensor in trained:
        if tensor.has_grad is not False or tape.opaque or guessing:
            sure = guessing or tensor.has_grad is True
            write = tape.write(tensor, interpreter.place(node), f"{optimizer.kind}.step", step=True, certain=sure)
            note_overwritten(tensor, write)
            stepped.append((tensor, write))
            if tensor.expanded:
                interpreter.hit("expanded", node, sure and bool(tensor.repeated), "parameter")
        if tensor.shallow:
            interpreter.hit_silent(SHALLOW_MODEL_COPY, node, False)
        if tensor.replaced is not None and tensor.has_grad is False:
            _check_lost(interpreter, tensor.replaced)
    note_step(interpreter, node, stepped)


def _step_momenta(interpreter: Interpreter, optimizer: Optimizer, node: ast.AST) -> None:
    """The first step makes them, the later ones write them."""
    if optimizer.momenta is not None:
        interpreter.tape.write(optimizer.momenta, interpreter.place(node), f"{optimizer.kind}.step", step=True)
    elif optimizer.has_momenta:
        optimizer.momenta = Tensor(Storage())


def _state_dict(interpreter: Interpreter, optimizer: Optimizer) -> Value:
    """It holds the momenta themselves; before the first step there are none."""
    kept: dict[Any, Value] = {"param_groups": UNKNOWN}
    if optimizer.momenta is not None:
        kept["state"] = optimizer.momenta
    return StateDict(kept, interpreter.tape.tick(), id(optimizer))


def _check_own_state(interpreter: Interpreter, optimizer: Optimizer, given: Value) -> None:
    """What is loaded are the optimizer's own momenta, which it has stepped since: nothing was kept."""
    tape = interpreter.tape
    for kept in options(given):
        if isinstance(kept, StateDict) and kept.of == id(optimizer) and kept.items.get("state") is optimizer.momenta:
            for write in optimizer.momenta.storage.writes if optimizer.momenta is not None else ():
                if write.time > kept.since and compatible(write.path, tape.path):
                    tape.hits.append(Hit.silent(OPTIMIZER_STATE_BY_REFERENCE, write, write.place, write.certain))


def note_cut(interpreter: Interpreter, target: Tensor, value: Tensor, node: ast.AST) -> None:
    """`x.data = y` hands on nothing of y's graph."""
    tape, graph_node = interpreter.tape, node_of(value)
    leaves = (
        [leaf for item in tape.reached([graph_node]) for leaf in item.leaves if leaf is not target]
        if graph_node
        else []
    )
    if leaves and interpreter.grad == "on":
        tape.cuts.append(Cut(target, tuple(leaves), interpreter.place(node), tape.path))


def _check_cut(interpreter: Interpreter, trained: list[Tensor]) -> None:
    """The optimizer has nothing to step by, and backward has stopped where `.data =` had cut it off."""
    tape = interpreter.tape
    if not tape.went_backward or tape.opaque or any(tensor.has_grad is not False for tensor in trained):
        return
    for cut in tape.cuts:
        if cut.target.has_grad and any(leaf is tensor for leaf in cut.leaves for tensor in trained):
            sure = tape.path[: len(cut.path)] == cut.path
            tape.hits.append(Hit.silent(DATA_ASSIGN_DETACHES, None, cut.place, sure))


def _check_lost(interpreter: Interpreter, replaced: Replaced) -> None:
    """The optimizer steps a parameter without a gradient, and its replacement has a gradient that is never used."""
    new, path = replaced.by, interpreter.tape.path
    if new.has_grad and not new.held and not new.storage.writes:
        sure = path[: len(replaced.path)] == replaced.path
        interpreter.tape.hits.append(Hit.silent(PARAMETER_REPLACED, None, replaced.place, sure))


def note_replaced(interpreter: Interpreter, old: Value | None, new: Value, node: ast.AST) -> None:
    """A name or an attribute gets another value: is that a parameter, or a module, which an optimizer knows?"""
    if not isinstance(old, (Tensor, Layer)) or (isinstance(old, Tensor) and not old.held):
        return
    stack: list[tuple[Value, Value]] = [(old, new)]
    seen = set[tuple[int, int]]()
    while stack:
        before, after = stack.pop()
        if before is after or (id(before), id(after)) in seen:  # a module may be held twice
            continue
        seen.add((id(before), id(after)))
        if isinstance(before, Tensor) and isinstance(after, Tensor):
            if before.held and after.leaf and after.requires_grad:
                before.replaced = Replaced(after, interpreter.place(node), interpreter.tape.path)
        elif isinstance(before, Layer) and isinstance(after, Layer):
            stack += [(tensor, after.state.get(name, NONE)) for name, tensor in before.state.items()]
            stack += [(child, after.children.get(name, NONE)) for name, child in before.children.items()]


def forget_gradients(
    interpreter: Interpreter, parameters: list[Tensor], args: Args, keywords: Keywords, node: ast.AST
) -> None:
    """`zero_grad()`: gradients are gone, unless they are only set to zero, in place."""
    to_none = args[0] if args else keywords.get("set_to_none", Const(True))
    known = isinstance(to_none, Const)
    interpreter.note("clear", parameters, node)
    for tensor in parameters:
        if isinstance(to_none, Const) and to_none.value:
            tensor.has_grad = None if interpreter.tape.path and tensor.has_grad else False
            tensor.grad = None
        elif tensor.grad is not None:
            interpreter.tape.write(tensor.grad, interpreter.place(node), "zero_grad", certain=known)
