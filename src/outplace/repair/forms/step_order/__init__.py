"""Repairs for an optimizer step between a forward and the backward that needs the old parameters.

- `detach`: detaches a value that the backward must not go through. A state that a loop passes on loses the graph of
  earlier iterations. If several networks are trained in turn, each loss gets the others' part detached.
- `run_again`: computes stale values after the step. What only the later backward needs moves there. The rest is
  computed again, after the step, in each loop iteration, or where it is used.
- `update_first`: moves the later update before the step that affects it.
- `steps_wait`: moves the steps after the last backward, which gets the parameters of its own optimizer as inputs; or
  after the end of the loop.
- `weight_copies`: the modules that compute the later loss use copies of their weights. This needs a run.

If the program prints, logs or stores a loss before the step, or a caller hands it in, only the repairs that keep its
value are offered (`reported`). If two optimizers train the same weights, and the earlier backward retains its graph,
both losses are parts of one loss: the repairs that keep the later one come first. Else the later loss is meant for the
new weights: the repairs that compute it again come first.

Most of them change the numbers after the step. A run has to show that everything before it stays the same. If the
events of the training step show that no step uses another gradient (`training`), no run is needed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from outplace.repair.facts.bug import Bug, Intent, Moment
from outplace.repair.forms import weight_copies
from outplace.repair.forms.step_order import detach, run_again, steps_wait
from outplace.repair.forms.step_order.moments import moments
from outplace.repair.forms.step_order.order import Order, Reordering, order_of, takes_gradients
from outplace.repair.forms.step_order.reported import is_handed_in, is_reported, names_its_inputs
from outplace.repair.forms.step_order.steps_wait import update_before_the_forward
from outplace.repair.forms.step_order.training import Training
from outplace.repair.forms.step_order.update_first import update_first
from outplace.repair.syntax.code import Code, Loop
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.moves import needed

__all__ = ["Reordering", "moments", "reorderings", "update_after_backward", "update_before_the_forward"]


def reorderings(
    code: Code, moment: Moment, files: Files, intent: Intent | None = None, bug: Bug | None = None
) -> Iterator[Reordering]:
    """The repairs that fit, the most likely intent first; only those for the intent if it is known.

    `bug`: what a run has seen, and so which modules can compute with copies of their weights.
    """
    order = order_of(files, code, moment)
    if order is None:
        return
    if not moment.by_optimizer:
        yield from steps_wait.update_after_backward(order)
        if order.in_one_iteration and takes_gradients(code, order.outer_step):
            yield from run_again.after_an_update(order)
        return
    unused = moment.from_source and Training(order).trains_again() is False and Training(order).cut_keeps_steps()
    if moment.from_source and not unused:  # the source does not show what the loss is meant to train
        order = replace(order, moment=replace(moment, for_the_step=()))
    loop = order.loop
    if loop is not None:
        yield from _across_iterations(order, loop)
    if order.in_one_iteration:
        yield from _in_one_iteration(order, unused, intent, bug)
    if loop is not None:
        yield from run_again.where_it_is_used(order)
        yield from run_again.in_each_iteration(order, loop)
        yield from steps_wait.after_the_loop(order, loop)
    if order.in_one_iteration and not moment.from_source:
        yield from update_first(order, shared=False)


def update_after_backward(code: Code, moment: Moment, files: Files) -> Iterator[Reordering]:
    """The backward goes before an update by hand that must not affect it."""
    order = order_of(files, code, moment)
    yield from steps_wait.update_after_backward(order) if order is not None else ()


def _across_iterations(order: Order, loop: Loop) -> Iterator[Reordering]:
    """The step of one loop iteration, and a backward of a later one."""
    yield from steps_wait.one_backward_for_all(order, loop)
    if order.moment.loss_is_older is not True:
        yield from detach.state_inside(order, loop)
        yield from detach.state(order, loop)
    yield from detach.others(order, loop)
    yield from steps_wait.in_a_second_loop(order, loop)


def _in_one_iteration(order: Order, unused: bool, intent: Intent | None, bug: Bug | None) -> Iterator[Reordering]:
    """The step, and a backward of the same loop iteration."""
    older = order.moment.loss_is_older
    yield from steps_wait.of_one_loss(order)
    yield from update_first(order, shared=True)
    yield from detach.cut(order, unused)
    if older is False:  # the loss is newer than the step: only its older part is to be computed again
        yield from run_again.after_the_step(order)
        yield from run_again.before_the_return(order)
        return
    with_old = [
        replace(way, intent="old-weights")
        for way in (*steps_wait.with_inputs(order), *_with_copies(order, bug))
        if intent != "new-weights"
    ]
    if intent == "old-weights" or (intent is None and _shows_old_weights(order)):
        yield from (replace(way, plain=order.moment.from_source) for way in with_old)
        if order.moment.from_source:
            yield from (way for way in update_first(order, shared=False) if way.plain)
        return
    with_new = [replace(way, intent="new-weights") for way in _computed_later(order)]
    if order.shares_graph and Training(order).trains_again() is not False:
        yield from with_old
        with_old = []
    yield from with_new
    yield from with_old
    if older is None:
        yield from run_again.before_the_return(order)


def _shows_old_weights(order: Order) -> bool:
    """Does the program show that the failed backward was meant for the weights before the step?"""
    return is_reported(order) or is_handed_in(order) or names_its_inputs(order)


def _with_copies(order: Order, bug: Bug | None) -> Iterator[Reordering]:
    """What computes the later loss uses copies of the weights, so its backward can come after the step."""
    calls = weight_copies.module_calls(order.files, bug)[1] if bug is not None else []
    block = order.code.block(order.outer_step)
    later = needed(order.outer_backward, block[: block.index(order.outer_backward)])
    behind = {node for item in later for node in ast.walk(item)}
    calls = [item for item in calls if item[1] in behind] or calls
    edits = weight_copies.with_copies(calls)
    if len(edits) == 1:
        ((path, changes),) = edits.items()
        title = f"Let {weight_copies.named(calls)} compute with copies of the weights, which the step changes"
        yield Reordering(title, "steps", list(changes), path)


def _computed_later(order: Order) -> Iterator[Reordering]:
    """The loss, or what it is computed from, is computed after the step."""
    later = [*run_again.moved(order), *run_again.from_its_method(order)]
    yield from later or run_again.after_the_step(order)
