"""Indexing and item assignment."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.knowledge.silent_rules.lost import WRITE_TO_INDEX_COPY
from outplace.knowledge.silent_rules.two_names import EXPANDED_PART_WRITTEN
from outplace.source import contents
from outplace.source.graph import Save
from outplace.source.joins import options
from outplace.source.overlaps import Region
from outplace.source.torch_model import layouts, regions, shapes
from outplace.source.torch_model.arrays import forget_array
from outplace.source.torch_model.operations import run_op
from outplace.source.torch_model.parametrized import check_remade
from outplace.source.torch_model.tensors import any_grad, fresh, node_of, requires_grad, tensors_in
from outplace.source.torch_model.writing import check_overlap, check_write, numpy_write, rebase, target_text
from outplace.source.values import (
    UNKNOWN,
    Bound,
    Const,
    Function,
    Instance,
    Items,
    Plain,
    Tensor,
    Unknown,
    Value,
    is_none,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def get_item(interpreter: Interpreter, tensor: Tensor, key: Value, node: ast.AST) -> Value:
    """`x[key]`: a view for ints and slices, a copy where a tensor or list decides."""
    if _is_text(key):
        return UNKNOWN
    advanced = _is_advanced(key)
    if advanced is True:
        return _index_copy(interpreter, tensor, key, node)
    view = run_op(interpreter, "narrow", [tensor, Const(0), Const(0), Const(1)], {}, node)
    if isinstance(view, Tensor):
        view.region, view.parts = regions.part(tensor, key), (*tensor.parts, (tensor, key))
        view.shape = shapes.item_shape(tensor.shape, key)
        view.packed = layouts.of_item(tensor, key, view.region is not None)
        view.expanded = tensor.expanded and _takes_what_is_repeated(tensor, key)
        view.repeated = _repeated_in(tensor, key) if view.expanded and _keeps_dimensions(key) else frozenset()
        is_view = advanced is False and tensor.known
        view.certain, view.view_sure = view.certain and is_view, view.view_sure and is_view
        view.anchor = view.anchor if is_view else object()
        view.known = tensor.known
    return view


def _takes_what_is_repeated(tensor: Tensor, key: Value) -> bool:
    """Of an expanded tensor: is there more than one of what is repeated in `tensor[key]`?"""
    if tensor.repeated:
        return bool(_repeated_in(tensor, key))
    keys = key.items if isinstance(key, Items) and key.kind == "tuple" else [key]
    return all(isinstance(item, Const) and not isinstance(item.value, int) for item in keys)  # a number takes but one


def _keeps_dimensions(key: Value) -> bool:
    keys = key.items if isinstance(key, Items) and key.kind == "tuple" else [key]
    return all(isinstance(item, Const) and isinstance(item.value, slice) for item in keys)


def _repeated_in(tensor: Tensor, key: Value) -> frozenset[int]:
    return tensor.repeated & shapes.long_dimensions(key, tensor.shape or ())


def _index_copy(interpreter: Interpreter, tensor: Tensor, key: Value, node: ast.AST) -> Value:
    """`x[mask]`, `x[rows, columns]`: a copy, for which autograd keeps the indices."""
    new_tensor = fresh(interpreter, requires_grad(tensor), tensor.dtype)
    new_tensor.storage.is_index_copy = tensor.known and _surely_copies(key)
    if tensor.shape and isinstance(key, Tensor) and key.dtype == "int" and key.shape is not None:
        new_tensor.shape = (*key.shape, *tensor.shape[1:])
        new_tensor.packed = tensor.packed
    if interpreter.grad in ("off", "inference"):
        new_tensor.requires_grad = False
    before = node_of(tensor)
    if new_tensor.requires_grad:
        new_tensor.node = interpreter.record("IndexBackward0", node)
        new_tensor.node.inputs = [before] if before is not None else []
        new_tensor.node.leaves = [tensor] if tensor.leaf else []
        new_tensor.node.saves = [
            Save(kept.storage, new_tensor.node.time, "indices", kept.certain) for kept in tensors_in(key)
        ]
    return new_tensor


def check_kept(interpreter: Interpreter, written: Value, expression: ast.expr, node: ast.AST) -> None:
    """`x[mask].zero_()`, `x[mask][0] = 1`: the index makes a copy, which is written and gone with the statement."""
    if not (isinstance(written, Tensor) and written.storage.is_index_copy and written.certain):
        return
    root: ast.expr = expression
    while isinstance(root, (ast.Subscript, ast.Attribute, ast.Call)) and not _is_path(root):
        root = root.func if isinstance(root, ast.Call) else root.value
    owner = interpreter.eval(root) if _is_path(root) and root is not expression else None
    if isinstance(owner, Tensor) and owner.storage is not written.storage:
        interpreter.hit_silent(WRITE_TO_INDEX_COPY, node, True)


def _is_path(node: ast.expr) -> bool:
    """A name, or an attribute of `self`."""
    owner = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(owner, ast.Name) and (node is owner or owner.id == "self")


def _surely_copies(key: Value) -> bool:
    """Is it no number in a tensor (`x[scores.argmax()]`), by which one row is viewed?"""
    if isinstance(key, Tensor):
        return key.dtype == "bool" or bool(key.shape)
    return isinstance(key, Items) and (key.kind == "list" or any(_surely_copies(part) for part in key.items))


def _is_text(key: Value) -> bool:
    """`x["name"]`: then x is no tensor, but a dict or what behaves like one."""
    return isinstance(key, Const) and isinstance(key.value, str)


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
        return key.storage is not None
    return None


def set_item(
    interpreter: Interpreter, holder: Value, target: ast.Subscript, value: Value, node: ast.AST, again: bool = False
) -> None:
    """`x[key] = value`; `again` for the second half of `x[key] += value`."""
    key = interpreter.eval(target.slice)
    only_of_tensors = isinstance(key, (Items, Tensor))  # `x[:, 0]`, `x[mask]`
    mixed = not all(
        isinstance(option, Tensor) or is_none(option) or (only_of_tensors and isinstance(option, Unknown))
        for option in options(holder)
    )
    if _is_text(key) or (isinstance(value, Const) and not isinstance(value.value, (int, float, complex))):
        mixed = True  # a text is no index, and None and texts are no values for a tensor

    def on(option: Value) -> Value:
        if isinstance(option, Tensor) and mixed:
            pass  # a dict in some cases, a tensor in others: which of them this line means is anybody's guess
        elif isinstance(option, Tensor):
            check_kept(interpreter, option, target.value, node)
            check_remade(interpreter, option, target.value, node)
            _set_tensor_item(interpreter, option, key, value, node, again)
        elif isinstance(option, Plain):
            forget_array(interpreter, option)
            numpy_write(interpreter, option, node)
        elif isinstance(option, Instance) and isinstance(setter := option.cls.find("__setitem__"), Function):
            interpreter.call_function(setter, [option, key, value], {}, node)
        else:
            contents.set_item(option, key, value)
        return option

    interpreter.each(holder, on)


def _check_expanded(interpreter: Interpreter, tensor: Tensor, key: Value, node: ast.AST) -> None:
    """`x.expand(...)[:, 0] = values`: several of the elements that it writes are one."""
    shape, written = tensor.shape or (), _repeated_in(tensor, key)
    if written:
        known = all(shape[place] is not None for place in written)
        interpreter.hit("expanded", node, known and tensor.certain and tensor.known)


_NEARLY_INFINITE = 1e4


def _is_value(value: Value) -> bool:
    """A number that is computed with; those that keep scores out of a softmax are not, and get no gradient."""
    if not isinstance(value, Const) or type(value.value) not in (int, float):
        return False
    return bool(abs(value.value) < _NEARLY_INFINITE)


def _set_tensor_item(
    interpreter: Interpreter, tensor: Tensor, key: Value, value: Value, node: ast.AST, again: bool
) -> None:
    values = list(tensors_in(value))
    advanced = _is_advanced(key)
    written = tensor.region if advanced else regions.part(tensor, key)
    if not again or advanced:  # the first half of `x[mask] += v` has written a copy
        _check_item_write(interpreter, tensor, key, value, written, node)
    place, name = interpreter.place(node), target_text(node)
    placed = advanced is False and not again and _is_value(value)
    interpreter.tape.write(tensor, place, "item assignment", target=name, region=written, placed=placed)
    grad = False if interpreter.grad in ("off", "inference") else any_grad([tensor, *values])
    if tensor.dtype in ("int", "bool"):
        grad = False
    if grad is False:
        return
    graph_node = None
    if grad:
        graph_node = interpreter.record("CopySlices", node)
        graph_node.inputs = [before for item in (tensor, *values) if (before := node_of(item)) is not None]
        graph_node.leaves = [item for item in values if item.leaf and item.requires_grad]
    rebase(interpreter, tensor, graph_node, grad)


_HOW = {True: "item assignment by index", False: "item assignment by view", None: "item assignment"}


def _check_item_write(
    interpreter: Interpreter, tensor: Tensor, key: Value, value: Value, written: Region | None, node: ast.AST
) -> None:
    """What PyTorch refuses at once. `value` is what is assigned, `written` is the part that it goes to."""
    values = list(tensors_in(value))
    advanced = _is_advanced(key)
    check_write(interpreter, tensor, node, _HOW[advanced], values)
    if advanced is False:
        places = shapes.item_shape(tensor.shape, key)
        sizes = ([shapes.without_ones(item.shape) for item in tensors_in(option)] for option in options(value))
        if not any(shapes.fits_into(places, of_option) for of_option in sizes):
            in_data = any_grad([tensor, *values]) is False
            detail = "shape of data" if in_data else "shape"
            interpreter.hit("shape-dtype", node, tensor.known and tensor.certain, detail)
        if values and tensor.repeated:
            _check_expanded(interpreter, tensor, key, node)
        if tensor.repeated and tensor.repeated - shapes.long_dimensions(key, tensor.shape or ()):
            interpreter.hit_silent(EXPANDED_PART_WRITTEN, node, False)
    keys = [index for index in tensors_in(key) if advanced and (values or index.dtype == "int")]  # masks fill
    check_overlap(interpreter, tensor, written, _HOW[advanced], [*values, *keys], node)
