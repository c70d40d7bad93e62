"""Custom Functions and checkpointed blocks: places where PyTorch checks nothing."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

TENSOR_KEPT_IN_CTX = SilentRule(
    "OUT323",
    "tensor-kept-in-ctx",
    "a Function keeps a tensor as an attribute of ctx, and it is written before backward",
    of="silent-other",
    message="a Function stores this tensor as an attribute of ctx, which PyTorch does not check, and this write "
    "changes it before backward: use ctx.save_for_backward, and write out of place",
    check="error",
    why="The Function stores this tensor as an attribute of its ctx, which PyTorch does not check. It was changed in "
    "place afterwards, and backward uses the changed values.",
    remedy="Store it with `ctx.save_for_backward(...)`, so that PyTorch checks it, and write out of place.",
    detector="tensor_kept_in_ctx",
    fix="Keep a copy for the backward",
    form="copied_in_ctx",
)

MISSING_MARK_DIRTY = SilentRule(
    "OUT324",
    "missing-mark-dirty",
    "a Function overwrites its input without ctx.mark_dirty, and the input is used afterwards",
    of="silent-other",
    message="a Function writes its input, which is used afterwards, and does not declare it: write into a clone, or "
    "return it and call ctx.mark_dirty",
    check="warning",
    why="The forward of {function} writes its input, whose memory the caller shares, and does not declare it. A "
    "later operation uses the changed values, and backward does not know about the change.",
    remedy="Write into a copy: `work = x.clone()` (`x.float()` copies nothing if x is float32 already).",
    detector="missing_mark_dirty",
    fix="Write into a copy",
    form="own_argument",
)

CHECKPOINT_SAVED_WRITTEN = SilentRule(
    "OUT325",
    "checkpoint-saved-written",
    "a checkpointed block overwrites what it saves when backward runs it again",
    of="silent-other",
    message="a checkpointed block saves this tensor when backward runs it again, where PyTorch checks nothing, and "
    "this write changes it: write out of place",
    check="error",
    why="This block is checkpointed: backward runs it again, and PyTorch does not check the tensors that it saves "
    "then. One of them was overwritten, so the gradient is computed from the wrong values. Without the checkpoint the "
    "same lines raise the error of OUT201.",
    remedy="Compute the new value out of place, or write a clone of what was saved.",
    detector="checkpoint_saved_written",
    after="torch.utils.checkpoint",
    fix="Write out of place",
    form="as_if_saved",
)

CHECKPOINT_WEIGHTS_CHANGED = SilentRule(
    "OUT326",
    "checkpoint-weights-changed",
    "the weights of a checkpointed block change between its forward and its backward",
    of="silent-other",
    no_check="check reports such a step as OUT202: without the checkpoint PyTorch raises that error.",
    why="This block is checkpointed: backward runs it again. Its weights or inputs were changed after its forward, "
    "and PyTorch does not compare. So the block now computes other values, and the gradient belongs to them, not to "
    "the loss.",
    remedy="Run the backward first and write the weights after it. Or write a copy of what the block was given.",
    detector="checkpoint_weights_changed",
    after="torch.utils.checkpoint",
    no_fix="Which order of the steps was meant is not in the program.",
)

SHARDED_WEIGHTS_CHANGED = SilentRule(
    "OUT342",
    "sharded-weights-changed",
    "weights that `fully_shard` shards are updated between a forward and its backward",
    of="silent-other",
    no_check="check reports such a step as OUT202: without fully_shard PyTorch raises that error.",
    why="`fully_shard` frees the whole weights after the forward, and backward gathers them again. They were updated "
    "in between, and PyTorch does not compare. So backward combines new weights with the activations of the old ones.",
    remedy="Run the backward first and update the weights after it.",
    detector="sharded_weights_changed",
    after="torch.distributed.fsdp._fully_shard._fsdp_param",
    no_fix="Which order of the steps was meant is not in the program.",
)

COMPILED_INPUT_WRITTEN = SilentRule(
    "OUT341",
    "compiled-input-written",
    "what a compiled region or a `vjp` keeps for its backward is overwritten, and PyTorch does not check it",
    of="silent-other",
    no_check="check reports such a write as OUT201: without the compiler PyTorch raises that error.",
    why="torch.compile or torch.func keeps this memory for the backward, with a version counter of its own. So PyTorch "
    "does not see the write, and the gradient is computed from the wrong values. In plain code the same lines raise an "
    "error.",
    remedy="Compute the new value out of place, write a clone, or write after the backward.",
    detector="compiled_input_written",
    fix="Write out of place",
    form="as_if_saved",
)
