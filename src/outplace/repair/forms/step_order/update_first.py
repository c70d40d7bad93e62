"""Moves the later update before the step that affects it.

Nothing is computed again, and each step uses the same gradients. This is the intention if the earlier loss uses a
detached value that the later loss back-propagates through (the target of a critic, which the actor's loss maximises).
Computed again after the step, that value would be a different one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from outplace.repair.facts.callees import functions_of
from outplace.repair.forms.backward_first import clears, needed
from outplace.repair.forms.step_order.forward import draws, uses
from outplace.repair.forms.step_order.lines import end_of, names_bound_within, removed, whole_lines
from outplace.repair.forms.step_order.order import Order, Reordering, goes_backward, retains_graph, stepping
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.calls import called_name, called_names
from outplace.repair.syntax.code import Code, is_library
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import reads
from outplace.source.heuristics import clips_gradients

_LEAVE = ast.Return | ast.Raise | ast.Break | ast.Continue | ast.Yield | ast.YieldFrom | ast.Await


def update_first(order: Order, files: Files, shared: bool) -> Iterator[Reordering]:
    """Moves the later update before the other one.

    `shared`: only if both use the same stale value, or only if they do not.
    """
    turns = _turns(order, files)
    if turns is None or turns.shared is not shared or not (shared or turns.frees):
        return
    edits = turns.edits()
    if edits is not None:
        later = "the later update" if turns.later is None else f"the update of `{turns.later}`"
        yield Reordering(
            f"Put {later} first, which needs the weights of before the step", "steps", edits, plain=turns.plain
        )


@dataclass(frozen=True)
class _Turns:
    """Two updates of one block, by the positions of their statements in it."""

    order: Order
    training: Training
    start: int
    """The start of the earlier update: the statement that clears its gradients, or its backward."""
    cleared: int | None
    """The statement that clears them, if it comes too early to be the start."""
    moved: slice
    earlier: str | None
    later: str | None
    """The optimizers; None if a called function has them."""

    @cached_property
    def block(self) -> list[ast.stmt]:
        return self.order.code.block(self.order.outer_step)

    @cached_property
    def shared(self) -> bool:
        """Does the earlier loss use a detached stale value that the later loss back-propagates through?"""
        own, later = self._behind_both
        names = [name for name in self.order.moment.stale if any(reads(item, name) for item in later)]
        return any(any(reads(item, name) for item in own) and not self._goes_through(own, name) for name in names)

    @cached_property
    def _behind_both(self) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The statements of each update, and those that compute its loss."""
        block = self.block
        passed = block[self.start : self.moved.start]
        losses = [item for item in passed if goes_backward(item)]
        own = [*(item for loss in losses for item in needed(loss, block[: block.index(loss)])), *passed]
        return own, [*needed(self.order.outer_backward, block[: self.moved.stop]), self.order.outer_backward]

    def _goes_through(self, statements: list[ast.stmt], name: str) -> bool:
        return any(uses(self.order.code, statement, name) for statement in statements)

    @cached_property
    def _is_entangled(self) -> bool:
        """Do both backwards go through the same value, so that one would free the graph of the other?"""
        own, later = self._behind_both
        only, others = [item for item in own if item not in later], [item for item in later if item not in own]
        return any(
            self._goes_through(only, name) and self._goes_through(others, name) for name in self.order.moment.held
        )

    @property
    def _is_apart(self) -> bool:
        """Do the two backwards reach different parameters, so that no graph belongs to both?"""
        passed = (self.training.parameters(item, "backward") for item in self.block[self.start : self.moved.start])
        own, later = frozenset[int]().union(*passed), self.training.parameters(self.order.outer_backward, "backward")
        return bool(own and later) and not own & later

    @property
    def frees(self) -> bool:
        """Does the earlier backward free its graph? If not, the later one is meant to use it, too."""
        return not any(retains_graph(item) for item in self.block[self.start : self.moved.start])

    @cached_property
    def plain(self) -> bool:
        """Does the source show that each step uses the same gradients, and that no graph is freed too early?"""
        if not self.frees or self._is_entangled or not (self.shared or self._is_apart):
            return False
        start, block = self._beginning(), self.block
        moved, clear = block[self.moved], [block[self.cleared]] if self.cleared is not None else []
        rest = [item for item in block[:start] if item not in clear]
        swapped = [*rest, *moved, *clear, *block[start : self.moved.start], *block[self.moved.stop :]]
        known = all(_is_followed(self.training, item) for item in block[start : self.moved.stop])
        return known and self.training.keeps_steps(swapped)

    def edits(self) -> list[Edit] | None:
        """The moved lines, with their comments and blank lines."""
        code, block = self.order.code, self.block
        moved, start = block[self.moved], self._beginning()
        passed = block[start : self.moved.start]
        clear = block[self.cleared] if self.cleared is not None else None
        kept = [*moved, *passed, *([clear] if clear is not None else [])]
        if not _are_apart(moved, passed) or not all(whole_lines(code, item) for item in kept):
            return None
        before = block[self.moved.start - 1]
        lines = code.lines[before.end_lineno or 0 : moved[-1].end_lineno]
        text = [line for number, line in enumerate(lines) if line.strip() or any(map(str.strip, lines[:number]))]
        blank = [""] if len(text) < len(lines) else []
        again = code.lines[clear.lineno - 1 : clear.end_lineno] if clear is not None else []
        first = block[start].lineno
        while code.lines[first - 2].strip().startswith("#") and first - 1 > (block[start - 1].end_lineno or 0) * (
            start > 0
        ):
            first -= 1
        at = code.offset(first, 0)
        edits = [
            Edit(at, at, "".join(f"{line}\n" for line in [*text, *blank, *again])),
            Edit(end_of(code, before), end_of(code, moved[-1]), ""),
        ]
        return [*edits, *([removed(code, clear)] if clear is not None else [])]

    def _beginning(self) -> int:
        """The first line of the paragraph that computes the earlier loss, if the later step affects none of it."""
        code, start = self.order.code, self.start
        mine = self.training.parameters(self.block[self.moved][-1], "step")
        while mine and start > 0 and self.cleared is None:
            one = self.block[start - 1]
            bound = {*names_bound_within(one)}
            if not isinstance(one, ast.Assign) or one.end_lineno != self.block[start].lineno - 1 or draws(code, one):
                break
            if mine & self.training.parameters(one, "forward") or bound & _names(self.block[self.moved]):
                break
            start -= 1
        return start


def _turns(order: Order, files: Files) -> _Turns | None:
    block, optimizers = order.code.block(order.outer_step), order.moment.optimizers
    step, backward = block.index(order.outer_step), block.index(order.outer_backward)
    earlier, later, end = stepping(order.outer_step), None, backward
    if not _does_all(files, order.code, order.outer_backward):
        steps = ((number, stepping(one)) for number, one in enumerate(block) if number > backward)
        end, later = next(((number, one) for number, one in steps if one in optimizers), (0, None))
        if later is None or later == earlier:
            return None
    own = needed(order.outer_backward, block[step + 1 : backward])
    moved = slice(min((block.index(item) for item in own), default=backward), end + 1)
    turns = _Turns(order, Training(order), step, None, moved, earlier, later)
    turns = turns if _does_all(files, order.code, order.outer_step) else _begun(turns, block[:step])
    between = [item for item in block[turns.start : end] if item is not order.outer_step]
    return None if any(stepping(item) in optimizers for item in between) else turns


def _does_all(files: Files, code: Code, statement: ast.stmt) -> bool:
    """Is it a whole update: a block, or a call of a function, that both calls backward and steps?"""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    functions = [function for call in calls for _, function, _ in functions_of(files, code, call) or ()]
    return {"backward", "step"} <= called_names(statement).union(*map(called_names, functions))


def _begun(turns: _Turns, before: list[ast.stmt]) -> _Turns:
    """The same, with the position at which the earlier update starts to accumulate its gradients."""
    cleared = [n for n, one in enumerate(before) if _clears(turns, one, turns.order.outer_step, turns.earlier)]
    after = cleared[-1] if cleared else -1
    losses = [number for number, one in enumerate(before) if number > after and goes_backward(one)]
    start = losses[0] if losses else len(before)
    between = before[after:start] if cleared else []
    others = any(_clears(turns, item, turns.block[turns.moved][-1], turns.later) for item in between)
    if cleared and not others and not _bound(between) & _names(turns.block[turns.moved]):
        return replace(turns, start=after)
    return replace(turns, start=start, cleared=after if cleared else None)


def _clears(turns: _Turns, statement: ast.stmt, step: ast.stmt, optimizer: str | None) -> bool:
    """Does it clear the gradients that a step uses: `opt.zero_grad()`, or that of its network?"""
    if not clears(statement):
        return False
    taken, cleared = (turns.training.parameters(one, kind) for one, kind in ((step, "step"), (statement, "clear")))
    return bool(taken and taken <= cleared) or ast.unparse(statement.value.func.value) == optimizer  # type: ignore[attr-defined]


_OF_A_TRAINING = ("zero_grad", "backward", "step", "item", "append", "print", "len", "float", "list")


def _is_followed(training: Training, statement: ast.stmt) -> bool:
    """Are all effects of a statement known? A called function may do anything, unless it runs a network."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        name = called_name(call)
        known = name in _OF_A_TRAINING or is_library(call.func) or training.parameters(statement, "forward", "clip")
        if (name.endswith("_") and not clips_gradients(call)) or not (known or isinstance(call.func, ast.Attribute)):
            return False
    return True


def _names(statements: Iterable[ast.stmt]) -> set[str]:
    """The names and attributes that statements read or bind."""
    parts = (
        node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name | ast.Attribute)
    )
    return {ast.unparse(node) for node in parts}


def _are_apart(some: list[ast.stmt], others: list[ast.stmt]) -> bool:
    """Can the two lists run in either order, as far as names show?"""
    if any(isinstance(node, _LEAVE) for item in [*some, *others] for node in ast.walk(item)):
        return False
    return not (_bound(some) & _names(others) or _bound(others) & _names(some))


def _bound(statements: Iterable[ast.stmt]) -> set[str]:
    parts = (
        node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name | ast.Attribute)
    )
    return {ast.unparse(node) for node in parts if not isinstance(node.ctx, ast.Load)}
