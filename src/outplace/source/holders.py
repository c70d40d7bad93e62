"""Finds who else holds a tensor that a statement writes, and later reads it as if it were unchanged.

Three signs say that two tensors were meant, not two names for one:

- a container was copied, which copies references only (`proposal = dict(state)`), and an item of one is updated by
  `proposal[key] += v`: the other container shows the change, too;
- one statement `y += v` runs on a view of another tensor (`y = x[0]`) and, in another iteration or on another path,
  on a new tensor (`y = f(x[0])`). If the alias were meant, `y` would always be one;
- a tensor is compared with itself under another name: `old = x`, `x += v`, `x - old`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from outplace.knowledge.silent_rules.two_names import COPIED_CONTAINER_WRITTEN, TENSOR_UNDER_TWO_NAMES
from outplace.source.graph import Hit, Hits, Write, compatible
from outplace.source.joins import options
from outplace.source.overlaps import touches
from outplace.source.values import Dictionary, Instance, Items, Scope, Stale, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

Container = Items | Dictionary | Instance

_MOST_COPIES = 16
_MOST_NAMES = 1000
"""So many of the latest names of each scope are looked at for each write,"""
_MOST_LOOKS = 64
"""How many other views of what it writes are compared."""
_MOST_STALE = 32
"""So many of the latest updates are remembered of each name or container."""


class Update:
    """One statement that updates what a name stands for, over all its runs."""

    __slots__ = ("hits", "meant", "two")

    def __init__(self) -> None:
        self.hits = Hits()
        """What it would be told of."""
        self.two = False
        """Has something shown that two tensors were meant?"""
        self.meant = False
        """Was the tensor put back where it had come from, so that it was one all along?"""


def link(made: Container, original: Value) -> None:
    """Notes that a container holds what another one holds."""
    group = _group(original)
    if group is not None and len(group) < _MOST_COPIES:
        group.append(made)
        made.copies = group


def link_pairs(pairs: Items, original: Dictionary) -> None:
    """Notes where the pairs of `original.items()` are from: what is made of them is a copy of that."""
    pairs.copies = _group(original)


def _group(original: Value) -> list[Container] | None:
    if isinstance(original, Container) and original.copies is None:
        tensors = any(isinstance(item, Tensor) for item in _values(original))
        original.copies = [original] if tensors else None
    return original.copies if isinstance(original, Container) else None


def note_item(holder: Value, node: ast.AST) -> None:
    """An item of a container was updated in place: the copies of the container have it, too."""
    for option in options(holder):
        if isinstance(option, Container) and option.copies is not None:
            written = list(_written(_values(option), node))
            for other in option.copies if written else ():
                held = set(map(id, _values(other))) if other is not option else set[int]()
                _mark_stale(other, "", *((tensor, write, None) for tensor, write in written if id(tensor) in held))


def note_name(interpreter: Interpreter, target: ast.Name, old: Value, node: ast.AST) -> None:
    """What a name stands for was updated in place: who else holds it?"""
    update = interpreter.updates.setdefault(node, Update())
    arguments = interpreter.frame.args
    for tensor, write in _written(options(old), node):
        held = False
        for holder, name in _elsewhere(interpreter, tensor, target.id):
            held = True
            _mark_stale(holder, name, (tensor, write, update))
        # A function that changes its argument by design is called with temporaries, too.
        update.two |= (
            not held and isinstance(node, ast.AugAssign) and not any(tensor is argument for argument in arguments)
        )


def note_method(interpreter: Interpreter, call: ast.Call, target: ast.expr) -> None:
    """`x.add_(v)`, `x[key].add_(v)`. (Lists are often made of others only to go through their items.)"""
    holder = target.value if isinstance(target, ast.Subscript | ast.Attribute) else target
    found = interpreter.frame.scope.get(holder.id) if isinstance(holder, ast.Name) else None
    if found is not None and isinstance(target, ast.Name):
        note_name(interpreter, target, found, call)
    elif isinstance(found, Dictionary | Instance):
        note_item(found, call)


def note_step(interpreter: Interpreter, node: ast.AST, stepped: list[tuple[Tensor, Write]]) -> None:
    """An optimizer has changed these: are there names for them?"""
    update, writes = interpreter.updates.setdefault(node, Update()), {id(tensor): write for tensor, write in stepped}
    for frame in interpreter.frames:
        for name, value in frame.scope.names.items():
            if isinstance(value, Tensor) and id(value) in writes:
                _mark_stale(frame.scope, name, (value, writes[id(value)], update))


def _mark_stale(holder: Scope | Container, name: str, *entries: Stale) -> None:
    if isinstance(holder, Scope):
        holder.stale = {**holder.stale, name: (*holder.stale.get(name, ()), *entries)[-_MOST_STALE:]}
    else:
        holder.stale = (*holder.stale, *entries)[-_MOST_STALE:]


def _written(values: tuple[Value, ...] | list[Value], node: ast.AST) -> Iterator[tuple[Tensor, Write]]:
    """The tensors that a statement has just written; not the parameters, which are there to be."""
    for value in values:
        if isinstance(value, Tensor) and value.known and value.certain and not value.parameter and value.storage.writes:
            write = value.storage.writes[-1]
            if write.place.node is node:
                yield value, write


def _values(holder: Container) -> list[Value]:
    if isinstance(holder, Instance):
        held = list(holder.names.values())
    else:
        own = holder.items if isinstance(holder, Items) else holder.items.values()
        held = [*own, *([holder.rest] if holder.rest is not None else [])]
    return [option for value in held for option in options(value)]


def _elsewhere(interpreter: Interpreter, tensor: Tensor, name: str) -> Iterator[tuple[Scope | Container, str]]:
    """The names and containers that the running functions know the tensor by, or memory of it."""
    looks = 0
    for frame in interpreter.frames:
        for other, value in islice(reversed(frame.scope.names.items()), _MOST_NAMES):
            if isinstance(value, Tensor):
                if value.storage is not tensor.storage or (frame is interpreter.frame and other == name):
                    continue
                looks += 1
                if looks > _MOST_LOOKS:
                    return
                if _is_same(value, tensor):
                    yield frame.scope, other
            elif isinstance(value, Container):
                yield from _inside(value, tensor, 2)


def _inside(holder: Container, tensor: Tensor, depth: int) -> Iterator[tuple[Container, str]]:
    values = _values(holder)
    if any(isinstance(value, Tensor) and _is_same(value, tensor) for value in values):
        yield holder, ""
    for value in values if depth > 1 else ():
        if isinstance(value, Container):
            yield from _inside(value, tensor, depth - 1)


def _is_same(one: Tensor, other: Tensor) -> bool:
    if one is other:
        return True
    known = one.storage is other.storage and one.certain and one.anchor is other.anchor
    return known and touches(other.region, one.region)


def check_name(interpreter: Interpreter, scope: Scope, name: str, value: Value) -> None:
    """A name is read."""
    for tensor, write, update in scope.stale.get(name, ()):
        if value is tensor:
            _tell(interpreter, tensor, write, update)


def check_item(interpreter: Interpreter, holder: Container, taken: Value) -> None:
    """Something is taken out of a container."""
    found = options(taken)
    for tensor, write, update in holder.stale:
        if any(option is tensor for option in found):
            _tell(interpreter, tensor, write, update)


def check_whole(interpreter: Interpreter, holder: Container) -> None:
    """All that a container holds is read."""
    for value in _values(holder):
        check_item(interpreter, holder, value)


def check_pair(interpreter: Interpreter, nodes: list[ast.expr], values: list[Value]) -> None:
    """Is a tensor held against itself, by another name?"""
    scope = interpreter.frame.scope
    for place, (node, value) in enumerate(zip(nodes, values, strict=False)):
        for tensor, write, update in scope.stale.get(node.id, ()) if isinstance(node, ast.Name) else ():
            if value is tensor and update is not None:
                others = [other for at, other in enumerate(values) if at != place and other is value]
                same = {ast.dump(one) for one, other in zip(nodes, values, strict=False) if other is value}
                if others and len(same) > 1:
                    update.two = True
                    _tell(interpreter, tensor, write, update)


def _tell(interpreter: Interpreter, tensor: Tensor, write: Write, update: Update | None) -> None:
    renewed = tensor.storage.replaced_since(write.time)
    if interpreter.looking_at or renewed or not compatible(write.path, interpreter.tape.path):
        return
    hit = Hit.silent(COPIED_CONTAINER_WRITTEN if update is None else TENSOR_UNDER_TWO_NAMES, write, write.place, False)
    (interpreter.tape.hits if update is None else update.hits).append(hit)


def note_bound(scope: Scope, name: str) -> None:
    """A name gets another value, or knowingly the same one (`x = block(x)`)."""
    scope.stale = {other: entries for other, entries in scope.stale.items() if other != name}


def note_stored(holder: Container, value: Value) -> None:
    """What was updated is put where it came from: that is where it was meant to be."""
    stored = options(value)
    for tensor, _, update in holder.stale:
        if update is not None and any(option is tensor for option in stored):
            update.meant = True
    holder.stale = tuple(entry for entry in holder.stale if not any(option is entry[0] for option in stored))


def settled(interpreter: Interpreter) -> list[Hit]:
    """The updates that were meant for one of two, at the end."""
    updates = interpreter.updates.values()
    return [hit for update in updates if update.two and not update.meant for hit in update.hits]
