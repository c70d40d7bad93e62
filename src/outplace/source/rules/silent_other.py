"""References kept instead of copies, hooks that write."""

from __future__ import annotations

from outplace.source.tape import Hit


def message(hit: Hit) -> str:
    """Which of them it is."""
    if hit.detail == "gradient":
        return "the gradient is written in place; other branches may share that very tensor: return a new one"
    return _MESSAGES.get(hit.detail, _STATE_DICT)


_STATE_DICT = "the kept state_dict() holds the parameters themselves, and this step changes them: keep a deep copy"

_MESSAGES = {
    "many": "this one tensor stands in a list or dict many times, and a write to one entry is a write to all of them",
    "repeated": "the index names a place twice, and `y[index] += v` adds there only once: use index_add",
    "kept": "a list keeps this tensor by reference, again and again, and each write changes all of its entries: "
    "append clones",
    "kept view": "a list keeps views of this memory, again and again, and each write changes all of its entries: "
    "append clones",
    "lent state": "a state_dict() holds the parameters themselves: this changes the model that it was taken from, and "
    "that is trained again after another one has loaded it: work on a deep copy",
    "copy": "what was kept is the parameter's own memory, and this step changes it: keep a clone",
    "cut": "`.data =` hands on values without their graph: what they were computed from gets no gradient, and its "
    "optimizer has nothing to step by",
    "gathered": "an index by a mask, a list or a tensor makes a copy: this writes the copy and leaves the tensor as it "
    "was; assign to `x[index]`",
    "computed weight": "this weight is computed from others whenever it is read (weight norm, a parametrization), so "
    "what is written here is lost: write before it is registered, or assign to the attribute",
    "lost": "an optimizer still holds what stood here before: this one gets gradients, and nobody updates it",
    "kept gradient": "this changes a gradient that was kept by reference and is read again later: keep a clone of it",
    "shallow": "copy.copy copies references: two networks have these parameters, and this step changes both; "
    "copy.deepcopy gives one its own",
    "shared gradient": "this makes one tensor the gradient of two leaves, and backward adds the gradients of both to "
    "it: assign a clone",
    "recomputed": "a checkpointed block keeps this tensor when backward runs it again, where PyTorch checks nothing, "
    "and this write changes it: write out of place",
    "sample": "a dataset hands out what it keeps, and this changes it in place each fetch: hand out copies",
    "own leaf": "this changes a tensor that was made of another one without a copy, and the other one is read again as "
    "if it were as before: make it of a clone",
    "copied container": "a copy of a container holds the same tensors: this changes one of them in both, and the other "
    "is read again as if it were as before: assign a new tensor, or copy the tensors",
    "other name": "this very tensor is held elsewhere, too, and read there again as if it were as before: write out of "
    "place, or keep a clone",
    "undeclared": "a Function writes into what it is given, which is computed with afterwards, without declaring it: "
    "write into a clone, or return it and call ctx.mark_dirty",
    "put back": "what is assigned back to this attribute later is the very tensor that is written here: nothing is put "
    "back; keep a clone",
    "ctx": "a Function keeps this tensor as an attribute of ctx, where PyTorch checks nothing, and this write changes "
    "it before backward: use ctx.save_for_backward, and write out of place",
}
