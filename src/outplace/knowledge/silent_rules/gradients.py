"""Gradients that are written, shared or kept by reference."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

HOOK_WRITES_GRADIENT = SilentRule(
    "OUT304",
    "hook-writes-gradient",
    "a hook writes the gradient that it gets, and another branch of the graph gets the same tensor",
    of="silent-other",
    message="this hook writes the gradient in place, and other branches may use the same tensor: return a new gradient",
    check="error",
    why="The hook writes the gradient in place. Another branch of the graph uses the same tensor, so it now gets the "
    "changed gradient, too.",
    remedy="Return a new gradient: `return grad * 0.1` instead of `grad.mul_(0.1)`.",
    detector="gradient_written",
    fix="Return a new gradient from the hook",
    form="new_gradient",
)

BACKWARD_WRITES_GRADIENT = SilentRule(
    "OUT305",
    "backward-writes-gradient",
    "the backward of a custom Function writes the gradient that it gets",
    of="silent-other",
    message="the backward of a Function writes the gradient in place, and other branches may use the same tensor: "
    "write a clone",
    check="warning",
    why="The backward of this Function writes the gradient in place. Another branch of the graph uses the same "
    "tensor, so it now gets the changed gradient, too.",
    remedy="Return a new gradient: `return grad * 0.1` instead of `grad.mul_(0.1)`.",
    detector="gradient_written",
    fix="Write a copy of the gradient",
    form="copied_gradient",
)

SHARED_GRADIENT = SilentRule(
    "OUT306",
    "shared-gradient",
    "one tensor is the .grad of two leaves, and backward adds the gradients of both to it",
    of="silent-other",
    message="two leaves now have the same tensor as their gradient, and backward adds both gradients to it: assign a "
    "clone",
    check="error",
    headline="{tensor} has become the gradient of two leaves",
    why="This assignment gave two leaves the same tensor as their gradient. Backward adds to a gradient in place, so "
    "each leaf gets the gradients of both.",
    remedy="Assign a copy: `a.grad = b.grad.clone()`.",
    detector="shared_gradient",
    fix="Assign a copy of the gradient",
    form="own_gradient",
)

GRADIENT_BY_REFERENCE = SilentRule(
    "OUT307",
    "gradient-by-reference",
    "a gradient has another name, and is read there after zero_grad or the next backward has changed it",
    of="silent-other",
    message="this changes a gradient that was kept without a copy and is read later: keep a clone",
    check="warning",
    headline="{tensor} is a gradient under another name, and {op} changed it before it was read there",
    why="`{name}` is the gradient itself, not a copy. zero_grad and the next backward change it in place. A later "
    "statement uses `{name}` and `.grad` as if they were two tensors.",
    remedy="Keep a copy: `[p.grad.clone() for p in model.parameters()]`. Or let each backward make new gradients: "
    "`zero_grad()`.",
    holder="a name",
    kept=True,
    detector="gradient_by_reference",
    no_fix="The finding is about the write; which of the names was to hold a snapshot only a person can tell.",
)

GRADIENT_IN_OPTIMIZER_STATE = SilentRule(
    "OUT333",
    "gradient-in-optimizer-state",
    "an optimizer keeps the last gradient in its state by reference, and it is changed in place",
    of="silent-other",
    no_check="check does not follow what the step of a custom optimizer reads from its own state.",
    why="{optimizer} keeps the last gradient in its state without a copy. The gradient is then zeroed and added to "
    "in place, so the state holds the gradient of the next step, not of the last one.",
    remedy="Keep a copy: `{name} = p.grad.clone()`. Or let each backward make new gradients: `zero_grad()`.",
    detector="gradient_in_optimizer_state",
    fix="Keep a copy of the gradient",
    form="kept_copies",
)
