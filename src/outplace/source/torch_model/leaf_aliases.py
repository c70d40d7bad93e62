"""A leaf that was made of another tensor without a copy: a write to the leaf changes the other tensor.

`adv = images.detach().requires_grad_()` is trained, by an optimizer or by hand, and `images` is read again. Who makes a
leaf of its own and goes on reading what it was made of wants two tensors. Parameters of modules are left out: others
may well be meant to follow them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.knowledge.silent_rules.two_names import LEAF_SHARES_MEMORY, SNAPSHOT_BY_REFERENCE
from outplace.source.graph import Hit, Write, compatible, replaces
from outplace.source.overlaps import RESHAPED
from outplace.source.values import Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def note_overwritten(tensor: Tensor, write: Write) -> None:
    """A write: does it change what a leaf was made of? (Who fills memory with something else knows whose it is.)"""
    if replaces(write.operation):
        return
    leaf: Tensor | None = tensor
    while leaf is not None and not (leaf.leaf and leaf.requires_grad):
        leaf = leaf.aliased  # `adv.data` is written as `adv` is
    original = leaf.aliased if leaf is not None else None
    while original is not None and not original.parameter:
        tensor.storage.overwritten.append((original, write))
        original = original.aliased


def check_overwritten(interpreter: Interpreter, read: Tensor) -> None:
    """A tensor is read that was changed through a leaf made of it."""
    tape = interpreter.tape
    for original, write in read.storage.overwritten:
        again = _is_part(read, original) and not read.storage.replaced_since(write.time)
        if again and compatible(write.path, tape.path):
            tape.hits.append(Hit.silent(LEAF_SHARES_MEMORY, write, write.place, False))


def check_put_back(interpreter: Interpreter, name: str, old: Value | None, new: Value, node: ast.AST) -> None:
    """`self.state = saved` of an argument, which is the very tensor that `self.state` holds, and has been written as
    such: a program that puts a value back believes that it was unchanged."""
    is_argument = isinstance(node, ast.Assign) and any(new is argument for argument in interpreter.frame.args)
    if not is_argument or not isinstance(old, Tensor) or old is not new or old.parameter:
        return
    for write in old.storage.writes:
        if write.target.split("[")[0].endswith(f".{name}") and compatible(write.path, interpreter.tape.path):
            interpreter.tape.hits.append(Hit.silent(SNAPSHOT_BY_REFERENCE, write, write.place, False))


def _is_part(read: Tensor, original: Tensor) -> bool:
    """Is it this tensor, or a view of it? (What a loader hands out next is of the same family, but lies elsewhere.)"""
    if read is original:
        return True
    whole = original.region in ((), (RESHAPED,))
    return whole and read.family is original.family and read.certain and read.anchor is original.anchor
