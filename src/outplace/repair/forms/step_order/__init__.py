"""An optimizer steps between a forward and the backward that needs the old weights: the ways out of it, one file each.

- `carried`: state that a loop carries from round to round is cut off from the rounds before: `h = h.detach()` after the
  step.
- `in_turn`: where several are trained in turn, each loss takes the others' part detached.
- `anew`: a value that was made before the step, or before the loop, is made anew after it; or cut off.
- `elsewhere`: the same for attributes that methods read, and for what the function that steps returns.
- `later`, `kept`: a loss that was computed before another loss's step is computed after it.
- `first`: the later update goes before the one whose step it minds.
- `once`: where one loss goes backward anew for each optimizer, it does so once, before the first step.
- `together`: where all losses were computed before the first step, the steps wait for the last backward.
- `moved`: an update by hand waits for the backward; where what one round makes goes backward in a later one, the step
  goes behind the loop.

Most give other numbers from the step on: a run has to show that all before it stays as it was. Where the source shows
that no step takes another gradient (`wiring`), it does without a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from outplace.repair.facts.bug import Moment
from outplace.repair.forms.step_order.anew import cut_off, made_anew, trains_again, used_again
from outplace.repair.forms.step_order.built import built_anew
from outplace.repair.forms.step_order.carried import detached_inside, detached_state
from outplace.repair.forms.step_order.elsewhere import detached_in_methods, returned_anew
from outplace.repair.forms.step_order.first import update_first
from outplace.repair.forms.step_order.in_turn import others_detached
from outplace.repair.forms.step_order.kept import called_later, kept_loss
from outplace.repair.forms.step_order.later import computed_later
from outplace.repair.forms.step_order.moments import moments
from outplace.repair.forms.step_order.moved import before_the_update, behind_the_backward, behind_the_loop
from outplace.repair.forms.step_order.once import backward_once
from outplace.repair.forms.step_order.order import Reordering, order_of
from outplace.repair.forms.step_order.together import steps_together
from outplace.repair.forms.step_order.training import Training
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.files import Files

__all__ = ["Reordering", "moments", "reorderings"]


def reorderings(code: Code, moment: Moment, files: Files | None = None) -> Iterator[Reordering]:
    """The ways that fit, the likeliest to be meant first."""
    order = order_of(code, moment)
    if order is None:
        return
    loop = order.loop
    if not moment.by_optimizer:
        yield from (one for one in (before_the_update(order), behind_the_backward(order)) if one is not None)
        return
    once = backward_once(order, loop) if loop is not None else None
    yield from [once] if once is not None else []
    unused = moment.from_source and trains_again(order) is False and Training(order).cut_keeps_steps()
    if moment.from_source and not unused:  # who knows what the loss is to train?
        order = replace(order, moment=replace(moment, for_the_step=()))
    if loop is not None and moment.root_is_older is not True:
        inside = detached_inside(order, loop, files) if files is not None else None
        yield from [inside] if inside is not None else []
        yield from detached_state(order, loop, files)
    if loop is not None:
        yield from others_detached(order, loop)
    if order.in_one_round:
        yield from update_first(order, shared=True)
    if order.in_one_round and moment.root_is_older is not False:
        if not trains_again(order):
            yield from cut_off(order, unused)
        later = list(computed_later(order))
        yield from later
        called = called_later(order, files) if files is not None else None
        yield from (one for one in (kept_loss(order), called, steps_together(order)) if one is not None)
        yield from used_again(order, unused) if not later else ()
    if order.in_one_round and moment.root_is_older is not True:
        yield from used_again(order, unused) if moment.root_is_older is False else ()
        outside = [detached_in_methods(order, files, unused), returned_anew(order, files)] if files is not None else []
        yield from (one for one in outside if one is not None)
    if loop is not None:
        built = built_anew(order, files) if files is not None else None
        yield from [built] if built is not None else []
        yield from made_anew(order, loop)
        behind = behind_the_loop(order, loop)
        if behind is not None:
            yield behind
    if order.in_one_round and not moment.from_source:
        yield from update_first(order, shared=False)
