"""An optimizer steps between a forward and the backward that needs the old parameters: the ways out of it.

- `detach`: a value that the backward is not to go through. State that a loop carries is cut off from the iterations
  before; of several that are trained in turn each loss takes the others' part detached.
- `run_again`: what is stale is computed again after the step, in each loop iteration, or where it is used.
- `compute_later`: what only the later backward needs is computed after the step.
- `update_first`: the later update goes before the step that it minds.
- `steps_wait`: the steps wait for the last backward, which is given the parameters that its own optimizer steps; or for
  the end of the loop.

Most give other numbers from the step on: a run has to show that all before it stays as it was. Where the events of the
training step show that no step takes another gradient (`training`), it does without a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from outplace.repair.facts.bug import Moment
from outplace.repair.forms.step_order import compute_later, detach, run_again, steps_wait
from outplace.repair.forms.step_order.moments import moments
from outplace.repair.forms.step_order.order import Order, Reordering, order_of
from outplace.repair.forms.step_order.training import Training
from outplace.repair.forms.step_order.update_first import update_first
from outplace.repair.syntax.code import Code, Loop
from outplace.repair.syntax.files import Files

__all__ = ["Reordering", "moments", "reorderings"]


def reorderings(code: Code, moment: Moment, files: Files) -> Iterator[Reordering]:
    """The ways that fit, the likeliest to be meant first."""
    order = order_of(code, moment)
    if order is None:
        return
    if not moment.by_optimizer:
        yield from steps_wait.update_waits(order)
        return
    unused = moment.from_source and Training(order).trains_again() is False and Training(order).cut_keeps_steps()
    if moment.from_source and not unused:  # who knows what the loss is to train?
        order = replace(order, moment=replace(moment, for_the_step=()))
    loop = order.loop
    if loop is not None:
        yield from _between_rounds(order, loop, files)
    if order.in_one_round:
        yield from _in_one_round(order, files, unused)
    if loop is not None:
        yield from run_again.where_it_is_used(order, files)
        yield from run_again.in_each_round(order, loop)
        yield from steps_wait.behind_the_loop(order, loop)
    if order.in_one_round and not moment.from_source:
        yield from update_first(order, shared=False)


def _between_rounds(order: Order, loop: Loop, files: Files) -> Iterator[Reordering]:
    """The step of one loop iteration, and a backward of a later one."""
    yield from steps_wait.backward_once(order, loop)
    if order.moment.root_is_older is not True:
        yield from detach.state_inside(order, loop, files)
        yield from detach.state(order, loop, files)
    yield from detach.others(order, loop)


def _in_one_round(order: Order, files: Files, unused: bool) -> Iterator[Reordering]:
    """The step, and a backward of the same loop iteration."""
    older = order.moment.root_is_older
    yield from update_first(order, shared=True)
    yield from detach.cut(order, files, unused)
    later = list(compute_later.moved(order)) if older is not False else []
    yield from later
    if older is not False:
        yield from compute_later.kept_by_an_object(order, files)
        yield from steps_wait.together(order)
    if not later:
        yield from run_again.after_the_step(order)
    if older is not True:
        yield from run_again.before_the_return(order, files)
