"""Writes and gradients that are lost: autograd, an optimizer or a parametrization does not get to know of them."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

PARAMETER_REPLACED = SilentRule(
    "OUT327",
    "parameter-replaced",
    "a parameter is replaced after its optimizer was made, and nobody updates the new one",
    of="silent-other",
    message="an optimizer still holds the old parameter: the new one gets gradients, but no optimizer updates it",
    check="error",
    headline="{tensor} was replaced after its optimizer was made, and no optimizer updates the new one",
    why="The optimizer made at line {line} updates the old tensor of `{name}`. The tensor that replaced it gets the "
    "gradients, but no optimizer updates it.",
    remedy="Change the parameter instead of replacing it (`with torch.no_grad(): w.copy_(...)`). Or make the "
    "optimizer after the last replacement, or pass it the new one with `add_param_group`.",
    detector="parameter_replaced",
    fix="Change the parameter itself",
    form="same_parameter",
)

DATA_ASSIGN_DETACHES = SilentRule(
    "OUT328",
    "data-assign-detaches",
    "`.data =` assigns computed values, and what they were computed from gets no gradient",
    of="silent-other",
    message="`.data =` assigns values without their graph: the tensors they were computed from get no gradient",
    check="error",
    headline="{tensor} got values by .data, which cuts them off from the tensors they were computed from",
    why="`.data =` assigns values without their graph. Backward ends at this tensor, so the tensors that the values "
    "were computed from get no gradient and are not trained.",
    remedy="Compute with the new values themselves: `torch.func.functional_call(module, {{'weight': w}}, (x,))`, or "
    "`F.linear(x, w)`.",
    detector="data_assign_detaches",
    no_fix="Which computation is to use the values is not in the program.",
)

DATA_WRITE_USED = SilentRule(
    "OUT329",
    "data-write-used",
    "a result of the graph is changed through .data and computed with",
    of="silent-data",
    message="a result of the graph is changed through .data, which autograd does not record: backward ignores the "
    "write",
    check="warning",
    headline="{tensor} was changed by {op} through .data, and backward ignores the write",
    why="This is a result of the graph. It was written through `.data`, which autograd does not record, so the "
    "gradient is computed as if the write had not happened.",
    remedy="Make a new tensor, which autograd records: `x = x.clamp(low, high)` instead of `x.data.clamp_(low, high)`.",
    detector="data_write_used",
    fix="Make a new tensor, which autograd records",
)

PARAMETRIZED_WEIGHT_WRITE = SilentRule(
    "OUT330",
    "parametrized-weight-write",
    "a write goes to a weight that a norm or parametrization computes, and is lost",
    of="silent-other",
    message="this weight is computed from other parameters each time it is read (weight norm, a parametrization), so "
    "this write is lost: write before it is registered, or assign to the attribute",
    check="error",
    headline="{tensor} is computed from other parameters, and the write by {op} is lost",
    why="{made}. The write changes only this one result: the parameters that are trained do not change, and no error "
    "is raised.",
    remedy="Write before that is registered, or {instead}",
    detector="parametrized_weight_write",
    no_fix="Moving the write before the registration, or assigning, gives different starting weights: the user "
    "decides.",
)

WRITE_TO_INDEX_COPY = SilentRule(
    "OUT331",
    "write-to-index-copy",
    "an index by a mask, list or tensor makes a copy, and the write goes to the copy",
    of="silent-other",
    message="an index by a mask, a list or a tensor makes a copy: this writes the copy, and the tensor does not "
    "change; assign to `x[index]`",
    check="error",
    headline="{tensor} is a copy, so {op} changes nothing",
    why="An index by a mask, a list or a tensor makes a copy. This statement writes the copy, and the copy is freed "
    "when the statement ends.",
    remedy="Assign to the part: `x[index] = v`, `x[index, 2] -= v`.",
    holder="nobody",
    detector="write_to_index_copy",
    no_fix="Programs that run well may depend on the write being lost.",
)

REPEATED_INDEX = SilentRule(
    "OUT332",
    "repeated-index",
    "`y[index] += v` with an index that occurs twice adds only one of the values",
    of="silent-other",
    message="the index contains a place twice, and `y[index] += v` adds there only once: use index_add",
    check="error",
    headline="{tensor} is added to at an index that occurs twice, and only one of the values counts",
    why="`y[index] += v` reads, adds and writes back once for each place, and {times} again. If several values have "
    "the same place, only one is added, and only that one has a gradient.",
    remedy="Add them all: `y = y.index_add(0, index, v)`, or `y.index_put((index,), v, accumulate=True)`.",
    detector="repeated_index",
    fix="Add for each index",
    form="added",
)

DETACHED_ALIAS_WRITTEN = SilentRule(
    "OUT335",
    "detached-alias-written",
    "a detached alias of a tensor is written, and the tensor is used later",
    of="silent-data",
    message="`detach()` makes no copy: this changes a result of the graph that is used later, and backward ignores "
    "the write: write a clone",
    check="warning",
    headline="{tensor} was changed by {op} through a detached alias, and backward ignores the write",
    why="`detach()` makes no copy: both tensors share one memory. Later operations use the changed values, but the "
    "gradient is computed as if the write had not happened.",
    remedy="Write a clone: `s = h.detach().clone()`.",
    kept=True,
    detector="detached_alias_written",
    fix="Write a clone of the detached tensor",
    form="detached_copy",
)

NO_GRAD_WRITE_USED = SilentRule(
    "OUT337",
    "no-grad-write-used",
    "a result of the graph is rescaled under no_grad and computed with",
    of="silent-data",
    message="a result of the graph is rescaled under no_grad, where autograd records nothing: backward ignores the "
    "write",
    check="warning",
    headline="{tensor} was changed by {op} under no_grad, and backward ignores the write",
    why="This is a result of the graph. It was written under `no_grad`, where autograd records nothing. Later "
    "operations use the changed values, but the gradient is computed as if the write had not happened.",
    remedy="Make a new tensor where gradients are recorded: `z = z / z.norm(dim=1, keepdim=True)`.",
    kept=True,
    detector="no_grad_write_used",
    no_fix="Whether the gradient was to see the write is not in the program.",
)
