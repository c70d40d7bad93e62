"""Writes and gradients that are lost: autograd, an optimizer or a parametrization does not get to know of them."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

PARAMETER_REPLACED = SilentRule(
    "OUT327",
    "parameter-replaced",
    "a parameter is replaced after its optimizer was made, and nobody updates the new one",
    of="silent-other",
    message="an optimizer still holds what stood here before: this one gets gradients, and nobody updates it",
    check="error",
    headline="{tensor} was replaced after its optimizer was made, and nobody updates it",
    why="The optimizer made at line {line} steps the tensor that `{name}` was then. Another one has taken its place "
    "since: that one gets the gradients, and nobody updates it.",
    remedy="Change the parameter instead of replacing it (`with torch.no_grad(): w.copy_(...)`), or make the "
    "optimizer after the last replacement, or hand it the new one by `add_param_group`.",
    detector="parameter_replaced",
    fix="Change the parameter itself",
    form="same_parameter",
)

DATA_ASSIGN_DETACHES = SilentRule(
    "OUT328",
    "data-assign-detaches",
    "`.data =` assigns computed values, and what they were computed from gets no gradient",
    of="silent-other",
    message="`.data =` hands on values without their graph: what they were computed from gets no gradient, and its "
    "optimizer has nothing to step by",
    check="error",
    headline="{tensor} was given values by .data, which cuts them off from what they were computed from",
    why="`.data =` hands on values without their graph: backward ends at this tensor, and what the values were "
    "computed from gets no gradient, so its optimizer has nothing to step by.",
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
    message="a result of the graph is changed through .data, which autograd does not record: backward goes on as if "
    "the write had not happened",
    check="warning",
    headline="{tensor} was changed by {op} through .data, and backward goes on as if it had not been",
    why="It is a result of the graph, and was written through `.data`, which autograd does not record: the gradient "
    "goes back as if the write had not happened.",
    remedy="Make a new tensor, which is recorded: `x = x.clamp(low, high)` instead of `x.data.clamp_(low, high)`.",
    detector="data_write_used",
    fix="Make a new tensor, which autograd records",
)

PARAMETRIZED_WEIGHT_WRITE = SilentRule(
    "OUT330",
    "parametrized-weight-write",
    "a write goes to a weight that a norm or parametrization computes, and is lost",
    of="silent-other",
    message="this weight is computed from others whenever it is read (weight norm, a parametrization), so what is "
    "written here is lost: write before it is registered, or assign to the attribute",
    check="error",
    headline="{tensor} is computed from other parameters, and what {op} writes into it is lost",
    why="{made}. What is written here is the result of this one time: the parameters that are trained stay as they "
    "are, and nothing is raised.",
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
    message="an index by a mask, a list or a tensor makes a copy: this writes the copy and leaves the tensor as it "
    "was; assign to `x[index]`",
    check="error",
    no_run="The copy is gone with the statement, and nothing that a run can compare has changed.",
    no_fix="Programs that run well may depend on the write being lost.",
)

REPEATED_INDEX = SilentRule(
    "OUT332",
    "repeated-index",
    "`y[index] += v` with an index that occurs twice adds only one of the values",
    of="silent-other",
    message="the index names a place twice, and `y[index] += v` adds there only once: use index_add",
    check="error",
    headline="{tensor} is added to at an index that occurs twice, and only one of the values counts",
    why="`y[index] += v` reads, adds and writes back once for each place, and {times} again: of several values for "
    "one place only one is added, and only that one has a gradient.",
    remedy="Add them all: `y = y.index_add(0, index, v)`, or `y.index_put((index,), v, accumulate=True)`.",
    detector="repeated_index",
    fix="Add for each index",
    form="added",
)

DETACHED_ALIAS_WRITTEN = SilentRule(
    "OUT335",
    "detached-alias-written",
    "a detached alias of an activation is written, and the activation is used later",
    of="silent-data",
    message="`detach()` makes no copy: this changes a result of the graph that is computed with later, and backward "
    "goes on as if it had not: write a clone",
    check="warning",
    headline="{tensor} was changed by {op} through a detached alias, and backward goes on as if it had not been",
    why="It lies in the memory of a result of the graph: `detach()` makes no copy. What is computed from that result "
    "afterwards takes the changed values, and the gradient goes back as if the write had not happened.",
    remedy="Write a clone: `s = h.detach().clone()`.",
    detector="detached_alias_written",
    fix="Write a clone of the detached tensor",
    form="detached_copy",
)

NO_GRAD_WRITE_USED = SilentRule(
    "OUT337",
    "no-grad-write-used",
    "a result of the graph is rescaled under no_grad and computed with",
    of="silent-data",
    message="a result of the graph is rescaled under no_grad, where autograd records nothing: backward goes on as if "
    "the write had not happened",
    check="warning",
    headline="{tensor} was changed by {op} under no_grad, and backward goes on as if it had not been",
    why="It is a result of the graph, and was written under `no_grad`, where autograd records nothing: what is "
    "computed from it afterwards takes the changed values, and the gradient goes back as if nothing were written.",
    remedy="Make a new tensor where gradients are recorded: `z = z / z.norm(dim=1, keepdim=True)`.",
    detector="no_grad_write_used",
    no_fix="Whether the gradient was to see the write is not in the program.",
)
