"""Moves an update by hand before the forward whose backward it breaks: weights that are swapped for a look, and back.

`loss = self.loss(batch)`, then an evaluation with averaged weights, and the caller goes backward. If the weights are
the same after it, the evaluation can come first. A run must show that.
"""

from __future__ import annotations

from collections.abc import Iterator

from outplace.repair.facts.bug import Bug
from outplace.repair.forms.backward_first import can_go_first, lines_first, takes_gradients
from outplace.repair.forms.step_order.moments import ways_to
from outplace.repair.forms.step_order.order import Reordering
from outplace.repair.syntax.files import Files


def update_before_the_forward(files: Files, bug: Bug) -> Iterator[Reordering]:
    """The update, or the statement that calls it, goes before the statement of its block that runs the network."""
    forwards = [way for site, _ in bug.savers for way in ways_to(files, site)]
    for code, update in ways_to(files, bug.writes[0]):
        block = code.block(update)
        here = block.index(update)
        found = [block.index(item) for home, item in forwards if home is code and item in block[:here]]
        if not found or takes_gradients(code, update):
            continue
        first = block[min(found)]
        if can_go_first(code, update, block[min(found) : here]):
            edits = [lines_first(code, [update], first, update)]
            yield Reordering("Update before the forward", "all", edits, code.path)
