"""Moves the later update before the step that affects it.

Nothing is computed again, and each step uses the same gradients. This is the intention if the earlier loss uses a
detached value that the later loss back-propagates through (the target of a critic, which the actor's loss maximises).
Computed again after the step, that value would be a different one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from outplace.repair.facts.callees import functions_of
from outplace.repair.forms.step_order.forward import draws, uses
from outplace.repair.forms.step_order.order import Order, Reordering, clears, goes_backward, retains_graph, stepping
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.calls import called_name, called_names
from outplace.repair.syntax.code import Code, is_library
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import reads_any
from outplace.repair.syntax.moves import Move, bound, needed, used
from outplace.source.heuristics import clips_gradients


def update_first(order: Order, shared: bool) -> Iterator[Reordering]:
    """Moves the later update before the other one.

    `shared`: only if both use the same stale value, or only if they do not.
    """
    turns = _two_updates(order)
    if turns is None or turns.shared is not shared or not (shared or turns.frees):
        return
    edits = turns.move.edits() if turns.move.keeps_values() else None
    if edits is not None:
        later = "the later update" if turns.later is None else f"the update of `{turns.later}`"
        title = f"Put {later} first, which needs the weights of before the step"
        yield Reordering(title, "steps", edits, plain=turns.plain)


@dataclass(frozen=True)
class _TwoUpdates:
    """Two updates of one block."""

    order: Order
    training: Training
    earlier: list[ast.stmt]
    """From the statement that clears the gradients of the earlier update, or from its backward."""
    cleared: ast.stmt | None
    """The statement that clears them, if it comes too early to be the first of these."""
    moved: list[ast.stmt]
    later: str | None
    """The optimizer of the later update; None if a called function has it."""

    @cached_property
    def block(self) -> list[ast.stmt]:
        return self.order.code.block(self.order.outer_step)

    @cached_property
    def shared(self) -> bool:
        """Does the earlier loss use a detached stale value that the later loss back-propagates through?"""
        own, later = self._behind_both
        names = [name for name in self.order.moment.stale if reads_any(later, [name])]
        return any(reads_any(own, [name]) and not self._goes_through(own, name) for name in names)

    @cached_property
    def _behind_both(self) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The statements of each update, and those that compute its loss."""
        block = self.block
        losses = [item for item in self.earlier if goes_backward(item)]
        own = [*(item for loss in losses for item in needed(loss, block[: block.index(loss)])), *self.earlier]
        before = block[: block.index(self.moved[-1]) + 1]
        return own, [*needed(self.order.outer_backward, before), self.order.outer_backward]

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
        own = frozenset[int]().union(*(self.training.parameters(item, "backward") for item in self.earlier))
        later = self.training.parameters(self.order.outer_backward, "backward")
        return bool(own and later) and not own & later

    @property
    def frees(self) -> bool:
        """Does the earlier backward free its graph? If not, the later one is meant to use it, too."""
        return not any(map(retains_graph, self.earlier))

    @cached_property
    def plain(self) -> bool:
        """Does the source show that each step uses the same gradients, and that no graph is freed too early?"""
        if not self.frees or self._is_entangled or not (self.shared or self._is_apart):
            return False
        first, last = self.block.index(self.move.target), self.block.index(self.moved[-1])
        known = all(_is_followed(self.training, item) for item in self.block[first : last + 1])
        return known and self.training.keeps_steps(self.move.order)

    @cached_property
    def move(self) -> Move:
        """Before the first line of the paragraph that computes the earlier loss, if the later step affects none of it.

        Gradients that were cleared earlier than that are cleared after the later update.
        """
        code, start = self.order.code, self.block.index(self.earlier[0])
        mine = self.training.parameters(self.moved[-1], "step")
        while mine and start > 0 and self.cleared is None:
            item = self.block[start - 1]
            if not isinstance(item, ast.Assign) or item.end_lineno != self.block[start].lineno - 1 or draws(code, item):
                break
            if mine & self.training.parameters(item, "forward") or bound([item]) & used(self.moved):
                break
            start -= 1
        return Move(code, [*self.moved, *([self.cleared] if self.cleared is not None else [])], self.block[start])


def _two_updates(order: Order) -> _TwoUpdates | None:
    block, optimizers = order.code.block(order.outer_step), order.moment.optimizers
    step, backward = block.index(order.outer_step), block.index(order.outer_backward)
    later, end = None, backward
    if not _does_all(order.files, order.code, order.outer_backward):
        steps = ((number, stepping(item)) for number, item in enumerate(block) if number > backward)
        end, later = next(((number, name) for number, name in steps if name in optimizers), (0, None))
        if later is None or later == stepping(order.outer_step):
            return None
    own = needed(order.outer_backward, block[step + 1 : backward])
    first = min((block.index(item) for item in own), default=backward)
    moved, training = block[first : end + 1], Training(order)
    start, cleared = step, None
    if not _does_all(order.files, order.code, order.outer_step):
        start, cleared = _beginning(order, training, moved, later)
    if any(stepping(item) in optimizers for item in block[start:end] if item is not order.outer_step):
        return None
    return _TwoUpdates(order, training, block[start:first], cleared, moved, later)


def _does_all(files: Files, code: Code, statement: ast.stmt) -> bool:
    """Is it a whole update: a block, or a call of a function, that both calls backward and steps?"""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    functions = [function for call in calls for _, function, _ in functions_of(files, code, call) or ()]
    return {"backward", "step"} <= called_names(statement).union(*map(called_names, functions))


def _beginning(
    order: Order, training: Training, moved: list[ast.stmt], later: str | None
) -> tuple[int, ast.stmt | None]:
    """The position at which the earlier update starts to accumulate its gradients.

    With the statement that clears them, if other statements that the later update needs come after it.
    """
    block = order.code.block(order.outer_step)
    before = block[: block.index(order.outer_step)]

    def clears_for(statement: ast.stmt, step: ast.stmt, optimizer: str | None) -> bool:
        """`opt.zero_grad()`, or that of its network."""
        if not clears(statement):
            return False
        taken, cleared = training.parameters(step, "step"), training.parameters(statement, "clear")
        return bool(taken and taken <= cleared) or ast.unparse(statement.value.func.value) == optimizer  # type: ignore[attr-defined]

    cleared = [n for n, item in enumerate(before) if clears_for(item, order.outer_step, stepping(order.outer_step))]
    after = cleared[-1] if cleared else -1
    losses = [number for number, item in enumerate(before) if number > after and goes_backward(item)]
    start = losses[0] if losses else len(before)
    if not cleared:
        return start, None
    between = before[after:start]
    others = any(clears_for(item, moved[-1], later) for item in between)
    return (start, before[after]) if others or bound(between) & used(moved) else (after, None)


_OF_A_TRAINING = ("zero_grad", "backward", "step", "item", "append", "print", "len", "float", "list")


def _is_followed(training: Training, statement: ast.stmt) -> bool:
    """Are all effects of a statement known? A called function may do anything, unless it runs a network."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        name = called_name(call)
        known = name in _OF_A_TRAINING or is_library(call.func) or training.parameters(statement, "forward", "clip")
        if (name.endswith("_") and not clips_gradients(call)) or not (known or isinstance(call.func, ast.Attribute)):
            return False
    return True
