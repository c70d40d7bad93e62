"""Gradients that are written, shared or kept by reference."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

HOOK_WRITES_GRADIENT = SilentRule(
    "OUT304",
    "hook-writes-gradient",
    "a hook writes the gradient that it gets, and another branch of the graph gets the same tensor",
    of="silent-other",
    message="the gradient is written in place; other branches may share that very tensor: return a new one",
    check="error",
    why="The hook writes the gradient in place. Autograd has handed the very same tensor to another branch of the "
    "graph, which now gets the changed gradient too.",
    remedy="Leave the gradient as it is and return a new one: `return grad * 0.1` instead of `grad.mul_(0.1)`.",
    detector="gradient_written",
    fix="Return a new gradient from the hook",
    form="new_gradient",
)

BACKWARD_WRITES_GRADIENT = SilentRule(
    "OUT305",
    "backward-writes-gradient",
    "the backward of a custom Function writes the gradient that it gets",
    of="silent-other",
    message="the backward of a Function writes the gradient in place; other branches may share that very tensor: "
    "write a clone",
    check="warning",
    why="The backward of this Function writes the gradient in place. Autograd has handed the very same tensor to "
    "another branch of the graph, which now gets the changed gradient too.",
    remedy="Leave the gradient as it is and return a new one: `return grad * 0.1` instead of `grad.mul_(0.1)`.",
    detector="gradient_written",
    fix="Write a copy of the gradient",
    form="copied_gradient",
)

SHARED_GRADIENT = SilentRule(
    "OUT306",
    "shared-gradient",
    "one tensor is the .grad of two leaves, and backward adds the gradients of both to it",
    of="silent-other",
    message="this makes one tensor the gradient of two leaves, and backward adds the gradients of both to it: assign "
    "a clone",
    check="error",
    headline="{tensor} has become the gradient of two leaves",
    why="This assignment made one tensor the gradient of two leaves. Backward adds to a gradient in place, so each of "
    "them now gets the gradients of both.",
    remedy="Give it a copy: `a.grad = b.grad.clone()`.",
    detector="shared_gradient",
    fix="Assign a copy of the gradient",
    form="own_gradient",
)

GRADIENT_BY_REFERENCE = SilentRule(
    "OUT307",
    "gradient-by-reference",
    "a gradient has another name, and is read there after zero_grad or the next backward has changed it",
    of="silent-other",
    message="this changes a gradient that was kept by reference and is read again later: keep a clone of it",
    check="warning",
    headline="{tensor} is a gradient by another name, and was changed by {op} before it is read there",
    why="`{name}` is the gradient itself, not a copy. zero_grad and the next backward change it in place, and a later "
    "statement computes with `{name}` and with `.grad` as if they were two tensors.",
    remedy="Keep a copy: `[p.grad.clone() for p in model.parameters()]`; or let the gradients be new ones: "
    "`zero_grad()`.",
    holder="a name",
    detector="gradient_by_reference",
    no_fix="The finding is about the write; which of the names was to hold a snapshot only a person can tell.",
)

GRADIENT_IN_OPTIMIZER_STATE = SilentRule(
    "OUT333",
    "gradient-in-optimizer-state",
    "an optimizer keeps the last gradient in its state by reference, and it is changed in place",
    of="silent-other",
    no_check="check does not follow what the step of a custom optimizer reads from its own state.",
    why="{optimizer} keeps the last gradient in its state by reference. It is then zeroed and added to in place, so "
    "what was kept is the gradient of the next step, not of the last one.",
    remedy="Keep a copy: `{name} = p.grad.clone()`; or let the gradients be new ones: `zero_grad()`.",
    detector="gradient_in_optimizer_state",
    fix="Keep a copy of the gradient",
    form="kept_copies",
)
