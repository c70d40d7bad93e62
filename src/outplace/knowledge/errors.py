"""The catalogue of errors: which message is this, what does it mean, what should be written instead.

Every text that an in-place operation is known to raise in PyTorch 2.4 to 2.15 has an entry here. Plain data, no torch:
the patterns are compiled when a message is first looked up.

The texts change little between releases, and the patterns allow for what does change: node names (`ExpBackward0` up to
2.12, `Exp` from 2.13), hints, "can not" for "cannot", and the wrapping that torch.compile puts around an eager error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

Raised = Literal["op", "use", "backward", "compile"]
"""Where an error comes up: at the in-place operation, at a later use of the tensor, in backward, while compiling."""


@dataclass(frozen=True, eq=False)
class ErrorEntry:
    """One message template.

    `pattern` is searched in the text with every run of white space made one blank. `cause` may name the pattern's
    groups in braces. `certain` is False where the same text also comes from programs with no in-place operation at all.
    """

    name: str
    kind: str
    pattern: str
    raised: Raised
    cause: str
    remedies: tuple[str, ...]
    certain: bool = True

    @property
    def code(self) -> str:
        """The rule code of the entry's kind, such as OUT201."""
        from outplace.knowledge.kinds import BY_NAME as BY_KIND

        return BY_KIND[self.kind].code


@dataclass(frozen=True, eq=False)
class Match:
    """A message that was recognised: its entry and what the variable parts of the text were."""

    entry: ErrorEntry
    groups: dict[str, str]
    raised: Raised
    """As the entry has it, or "compile" where torch.compile met the error while it traced the program."""

    @property
    def cause(self) -> str:
        """The entry's cause with the message's own names and numbers put in."""
        return self.entry.cause.format_map(self.groups)


@dataclass(frozen=True)
class VersionError:
    """What the saved-tensor message says about the tensor.

    `op` is the node's name without its `Backward0` ending, so that it reads the same for every release. For a tensor
    that was saved as a node's result it is the node that saved it; for one saved as an input it is the node that made
    its present value, which after a recorded write is the write itself. None for leaves and plain tensors.
    """

    type: str
    sizes: tuple[int, ...] | None
    output: int | None
    op: str | None
    version: int
    expected: int


_OP = r"(?P<op>\S+?)(?:Backward\d*)?"
_VERSION = (
    r"\[(?P<type>[\w.:]+) (?P<sizes>[^;]{1,2000}?)\]"
    rf"(?:, which is output (?P<output>\d+) of {_OP},)?"
    r" is at version (?P<version>\d+); expected version (?P<expected>\d+) instead"
)
_VIEW = (
    rf"(?:Output (?P<output>\d+) of {_OP} is a view|A view was created in (?P<mode>no_grad|inference) mode)"
    r"(?: of a view which was created in (?P<outer>no_grad|inference) mode)?"
)
_NOW = r" and is being modified inplace(?: with grad mode enabled| in normal mode)?\. "
_LATER = (
    r" and its base or another view of its base has been modified inplace"
    r"(?: with grad mode enabled| in normal mode)?\. "
)
_MULTI = r"This view is the output of a function that returns multiple views"
_CUSTOM = r"This view was created inside a custom Function"
_NOGRAD_VIEW = (
    rf"(?:Output (?P<output>\d+) of {_OP} is a view of a view which|A view) "
    r"was created in (?P<mode>no_grad|inference) mode"
)

_OUT_OF_PLACE = "Write out of place: `y = y + 1` instead of `y += 1`, `y = y.relu()` instead of `y.relu_()`."
_NO_GRAD_UPDATE = "For an update or an initialisation, wrap the write: `with torch.no_grad(): w.add_(1)`."
_CAST_SOURCE = "Cast the value to the target's dtype: `x[idx] = v.to(x.dtype)`. Under autocast this is the usual case."
_NO_OUT = "Drop `out=` and take the returned tensor: `y = torch.add(x, 1)`."
_STATE_IN_OUT = "Pass the state in as an argument and return the new state (`has_aux=True` for `torch.func.grad`)."

# The order is the order of the search: of two entries whose patterns can match one text, the more specific comes first.
ENTRIES: tuple[ErrorEntry, ...] = (
    # --- leaves and views, refused before the write -------------------------------------------------------------------
    ErrorEntry(
        "leaf-view",
        "leaf-view",
        r"a view of a leaf Variable that requires grad (?:is being|has been) used in an in-?place operation",
        "op",
        "The write goes through a view (an index, a slice, `.view()`, `.t()`) into a leaf that requires grad. "
        "The leaf would no longer be the value whose gradient is asked for.",
        (
            "To fill in initial values: `with torch.no_grad(): w[0] = 5.0`.",
            "To keep it in the graph, write into a copy: `w2 = w.clone(); w2[0] = 5.0`, and use `w2` from there on.",
            "Without a copy by hand: `torch.where(mask, 5.0, w)`, `torch.slice_scatter(...)`, `w.index_fill(...)`.",
        ),
    ),
    ErrorEntry(
        "dirty-leaf",
        "dirty",
        r"a leaf Variable that requires grad has been used in an in-?place operation",
        "op",
        "A custom autograd.Function marked a leaf that requires grad as dirty: it wrote into the leaf itself. "
        "The write is already done when this is raised.",
        (
            "Give the Function a copy: `Fn.apply(x.clone())`.",
            "Or let the Function compute a new tensor and drop `ctx.mark_dirty(x)`.",
        ),
    ),
    ErrorEntry(
        "leaf",
        "leaf",
        r"a leaf Variable that requires grad is being used in an in-?place operation",
        "op",
        "The tensor is a leaf (you made it, no operation did) and it requires grad. "
        "Backward gives the gradient at its present value, so that value must stay as it is while grad mode is on.",
        (
            _NO_GRAD_UPDATE,
            "To use the changed value in the graph, give it a name of its own: `w2 = w + 1`.",
            "To write into a copy: `w2 = w.clone(); w2.add_(1)`. For a mask: `w2 = torch.where(mask, 0.0, w)`.",
            "If the tensor is still being filled, fill first and call `w.requires_grad_()` last.",
        ),
    ),
    ErrorEntry(
        "multi-view-later",
        "multi-view",
        _VIEW + _LATER + _MULTI,
        "use",
        "A view from `unbind`, `split`, `chunk` or from iterating over a tensor is used here, but the tensor it views "
        "was written since. The culprit is that earlier write, not the line that raises.",
        (
            "Take the views after the write.",
            "Write out of place: `y = y + 1` instead of `y.add_(1)`.",
        ),
    ),
    ErrorEntry(
        "multi-view",
        "multi-view",
        rf"(?:{_VIEW}{_NOW})?{_MULTI}",
        "op",
        "The tensor is one of several views that a single call returned (`unbind`, `split`, `chunk`, iterating over a "
        "tensor, unpacking it) or a view of such a one. Autograd cannot follow a write into one of them.",
        (
            "Out of place: `a = a * 2` instead of `a.mul_(2)`.",
            "If the write must reach the whole tensor, index it: `y[:2] *= 2`; in a loop `y[i] += 1`.",
            "If it must not, copy: `a, b = (t.clone() for t in y.chunk(2))`.",
        ),
    ),
    ErrorEntry(
        "custom-view-later",
        "custom-view",
        _VIEW + _LATER + _CUSTOM,
        "use",
        "A view that a custom autograd.Function returned is used here, but the tensor it views was written "
        "since. The culprit is that earlier write, not the line that raises.",
        (
            "Return a new tensor from forward: `return x.clone()`.",
            "Or write the base out of place: `y = y + 1`.",
        ),
    ),
    ErrorEntry(
        "custom-view",
        "custom-view",
        rf"(?:{_VIEW}{_NOW})?{_CUSTOM}",
        "op",
        "The tensor came out of a custom autograd.Function as a view of its input, or as the input itself. "
        "Writing into it would bypass the Function's own backward.",
        (
            "Return a new tensor from forward: `return x.view(-1).clone()`, for an identity `return x.clone()`.",
            "Or write out of place after the call: `v = v + 1`.",
        ),
    ),
    ErrorEntry(
        "nograd-view",
        "nograd-view",
        _NOGRAD_VIEW + r" and is being modified inplace",
        "op",
        "The view was made under `no_grad` or `inference_mode` and is written with grad mode on. "
        "Autograd cannot tell whether the write should be recorded.",
        (
            "Not to be tracked: move the write into the block as well.",
            "To be tracked: make the view outside the block.",
            "If a separate tensor was meant, copy it in the block: `v = y.view(-1).clone()`.",
        ),
    ),
    ErrorEntry(
        "nograd-view-later",
        "nograd-view",
        _NOGRAD_VIEW + r" and its base or another view of its base has been modified inplace",
        "use",
        "A view that was made under `no_grad` or `inference_mode` is used here, but the tensor it views was written "
        "since with grad mode on. The culprit is that earlier write, not the line that raises.",
        (
            "If the view is only to be read, cut it off with a copy: `v = y.detach().clone().view(-1)`.",
            "Or make the view and the write both inside the block, or both outside.",
        ),
    ),
    # --- saved tensors ------------------------------------------------------------------------------------------------
    ErrorEntry(
        "saved",
        "saved",
        rf"modified by an in-?place operation(?:: {_VERSION})?",
        "backward",
        "An operation kept this tensor for its backward and it was written afterwards: the value it needs is gone. "
        "The culprit is any write between the operation and backward: an in-place operation, an assignment to an "
        "index, or `optimizer.step()`.",
        (
            _OUT_OF_PLACE,
            "If the write is needed, write into a copy: `w = y.clone(); w[0] = 0`.",
            "Filling a buffer in a loop: collect the parts in a list and `torch.stack` them once.",
            "If `optimizer.step()` came between: run every backward before the step, or the forward again after it.",
        ),
    ),
    ErrorEntry(
        "saved-cached",
        "saved",
        r"Tensor cached during selective activation checkpoint has been mutated",
        "backward",
        "Selective checkpointing keeps this result of the block, to use it again instead of computing it in backward. "
        "It was overwritten after that.",
        (
            "Compute the new value out of place, so that what was kept stays as it was.",
            "Or let the policy recompute this operation.",
        ),
    ),
    ErrorEntry(
        "saved-detached",
        "detached",
        r"Trying to use a saved tensor that has been detached in-?place",
        "backward",
        "An operation kept this tensor for its backward and `detach_()` cut it out of the graph afterwards.",
        ("Detach out of place: `y = y.detach()`, and use the new `y` only where no gradient is wanted.",),
    ),
    ErrorEntry(
        "leaf-moved",
        "replaced",
        r"leaf variable has been moved into the graph interior",
        "backward",
        "The graph was built on a leaf that has since become a computed tensor: `requires_grad_(False)` and then a "
        "write of a value that requires grad.",
        ("Write out of place: `a2 = a.detach() * w` instead of `a.requires_grad_(False); a.mul_(w)`.",),
    ),
    ErrorEntry(
        "negative-slope",
        "underivable",
        r"In-?place (?P<op>\w+) backward calculation is triggered with a negative slope",
        "backward",
        "The in-place form keeps only its result, and with a negative slope (or alpha) the input's sign cannot be read "
        "back from it.",
        ("Use the out-of-place form: `F.leaky_relu(y, -0.1)` without `inplace=True`.",),
    ),
    ErrorEntry(
        "no-derivative",
        "underivable",
        r"derivative for (?:aten::)?(?P<op>\w*[A-Za-z0-9]_) is not implemented",
        "backward",
        "`{op}` has no derivative. The write itself is accepted; the error comes when backward reaches it.",
        (
            "If no gradient should flow through it, do it to a copy: `m = y.detach().clone()`.",
            "If one should, use an operation that has a derivative.",
        ),
    ),
    ErrorEntry(
        "pack-hook",
        "autograd-state",
        r"A saved tensor pack hook is modifying its input in place",
        "op",
        "The pack hook given to `saved_tensors_hooks` writes into the tensor it receives, "
        "which is the program's own tensor and not a copy.",
        ("Make a new tensor in the hook: `return t * 2` instead of `t.mul_(2); return t`.",),
    ),
    # --- autograd state, size, storage --------------------------------------------------------------------------------
    ErrorEntry(
        "detach-view",
        "autograd-state",
        r"Can't detach views in-place",
        "op",
        "`detach_()` was called on a view. The view shares its base's history, so it cannot be cut off in place. "
        "With DistributedDataParallel(gradient_as_bucket_view=True) the gradients are views.",
        (
            "`v = v.detach()`.",
            "For gradients: `optimizer.zero_grad(set_to_none=True)` in place of `p.grad.detach_()`.",
        ),
    ),
    ErrorEntry(
        "requires-grad-nonleaf",
        "autograd-state",
        r"you can only change requires_grad flags of leaf variables",
        "op",
        "`requires_grad` is changed on a tensor that an operation made. Often it is a buffer that an in-place write of "
        "a computed value has pulled into the graph.",
        (
            "`y = y.detach()` where no gradient is wanted.",
            "Keep buffers out of the graph: `buf.copy_(h.detach())`.",
        ),
    ),
    ErrorEntry(
        "resize-grad",
        "autograd-state",
        r"cannot resize variables that require grad",
        "op",
        "`resize_` has no derivative, so it is refused on any tensor that requires grad, even under `no_grad`.",
        ("Build a new tensor: `F.pad(x, (0, 1))`, `torch.cat`, `x.reshape(...)`, or slice it.",),
    ),
    ErrorEntry(
        "set-data-type",
        "autograd-state",
        r"Attempted to call `variable\.set_data\(tensor\)`, but `variable` and `tensor` have incompatible tensor type",
        "op",
        "`x.data = t` was given a tensor of another layout or device type (dense against sparse, for example).",
        ("Make a new parameter: `module.weight = nn.Parameter(t)`, and build the optimizer after that.",),
    ),
    ErrorEntry(
        "set-data-dtype",
        "autograd-state",
        r"data set to a tensor that requires gradients must be floating point or complex dtype",
        "op",
        "`x.data = t` was given an integer or bool tensor, and `x` requires grad.",
        ("Cast first, and copy under no_grad: `with torch.no_grad(): x.copy_(t.float())`.",),
    ),
    ErrorEntry(
        "grad-size",
        "autograd-state",
        r"attempting to assign a gradient of size '(?P<grad>[^']*)' to a tensor of size '(?P<tensor>[^']*)'",
        "op",
        "`x.grad = g` was given a gradient of size {grad} for a tensor of size {tensor}.",
        ("Give a gradient of the tensor's own shape: `x.grad = g.sum_to_size(x.shape)` or `g.reshape(x.shape)`.",),
    ),
    ErrorEntry(
        "grad-dtype",
        "autograd-state",
        r"attempting to assign a gradient with dtype '(?P<grad>[^']*)' to a tensor",
        "op",
        "`x.grad = g` was given a gradient of dtype {grad}, and the tensor has another.",
        ("Cast it: `x.grad = g.to(x.dtype)`.",),
    ),
    ErrorEntry(
        "grad-device",
        "autograd-state",
        r"attempting to assign a gradient with device type '(?P<grad>[^']*)' to a tensor",
        "op",
        "`x.grad = g` was given a gradient on {grad}, and the tensor is elsewhere.",
        ("Move it: `x.grad = g.to(x.device)`.",),
    ),
    ErrorEntry(
        "grad-self",
        "autograd-state",
        r"can't assign Variable as its own grad",
        "op",
        "`x.grad = x`: a tensor cannot be its own gradient, each step would write into both.",
        ("Assign a copy: `x.grad = x.detach().clone()`.",),
    ),
    ErrorEntry(
        "grad-type",
        "autograd-state",
        r"assigned grad expected to be a Tensor or None but got grad of type",
        "op",
        "`x.grad` was given something that is no tensor.",
        ("Assign a tensor or `None`: `x.grad = torch.zeros_like(x)`.",),
    ),
    ErrorEntry(
        "swap-weakref",
        "autograd-state",
        r"Cannot swap (?P<which>t[12]) because it has weakref",
        "op",
        "`torch.utils.swap_tensors` (also `module.to()` where swapping is switched on) cannot exchange a tensor that "
        "something holds a weak reference to.",
        ("Drop the weak reference before the swap.", "Or copy the values: `with torch.no_grad(): a.copy_(b)`."),
    ),
    ErrorEntry(
        "created-from-data",
        "autograd-state",
        r"is not allowed on a Tensor created from \.data or \.detach\(\)",
        "op",
        "The size or storage of a tensor from `.data` or `.detach()` is changed; the original would not follow.",
        ("Make a separate tensor first: `y = x.detach().clone()`.",),
    ),
    # --- out= ---------------------------------------------------------------------------------------------------------
    ErrorEntry(
        "out-grad",
        "out-arg",
        r"(?:(?P<op>\w+)\(\): )?functions with out=\.\.\. arguments don't support automatic differentiation",
        "op",
        "The call has `out=` and one of its tensors requires grad. "
        "What is written into an `out=` tensor is never recorded.",
        (
            _NO_OUT,
            "If no gradient is wanted: `with torch.no_grad():`, or pass `x.detach()`.",
        ),
    ),
    ErrorEntry(
        "out-dtype",
        "shape-dtype",
        r"Expected out tensor to have dtype (?P<expected>[\w:.]+), but got (?P<got>[\w:.]+) instead",
        "op",
        "The `out=` tensor has dtype {got}, the result has {expected}, and this operation does not convert.",
        ("Give `out=` the dtype of the result, or drop `out=`.",),
    ),
    ErrorEntry(
        "out-cat-dtype",
        "shape-dtype",
        r"torch\.cat\(\): input types can't be cast to the desired output type (?P<target>\w+)",
        "op",
        "The `out=` tensor of `torch.cat` has dtype {target}, which cannot hold the inputs.",
        ("Give `out=` the dtype of the inputs, or drop `out=`.",),
    ),
    ErrorEntry(
        "out-resized",
        "shape-dtype",
        r"An output with one or more elements was resized since it had shape (?P<shape>\[[^\]]*\]), "
        r"which does not match the required output shape (?P<required>\[[^\]]*\])",
        "op",
        "The `out=` tensor had shape {shape}, the result has {required}: PyTorch resized it in place (a warning). "
        "Views of the old tensor no longer show its values.",
        ("Give `out=` the right shape: `torch.empty(...)`, or drop `out=`.",),
    ),
    # --- the write itself ---------------------------------------------------------------------------------------------
    ErrorEntry(
        "expanded",
        "expanded",
        r"more than one element of the written-to tensor refers to a single memory location",
        "op",
        "The target was made by `expand`, `broadcast_to` or the like: several of its elements are one place in memory.",
        (
            "Copy before the write: `x = x.clone(); x.add_(1)`.",
            "Or write out of place: `x = x + 1`.",
            "In a hook, the gradient of `sum()` is such a tensor: return a new one, `g * 2`.",
        ),
    ),
    ErrorEntry(
        "expanded-index",
        "expanded",
        r"Use of (?P<op>\w+) on expanded tensors is deprecated",
        "op",
        "`{op}` writes into an expanded tensor (a warning): one place in memory stands for several elements, so more "
        "elements change than were named.",
        ("Copy before the write: `x = x.clone()`.",),
    ),
    ErrorEntry(
        "overlap",
        "overlap",
        r"some elements of the input tensor and the written-to tensor refer to a single memory location",
        "op",
        "The operation reads from memory that it writes at another place (`x[1:] += x[:-1]`, `x.copy_(x.t())`, `out=` "
        "over an input): the result would depend on the order of the writes.",
        (
            "Copy what is read: `x[1:] += x[:-1].clone()`.",
            "Or compute first, then assign: `y = x[:-1] + 1; x[1:] = y`.",
        ),
    ),
    ErrorEntry(
        "broadcast",
        "shape-dtype",
        r"output with shape (?P<shape>\[[^\]]*\]) doesn't match the broadcast shape (?P<broadcast>\[[^\]]*\])",
        "op",
        "The result has shape {broadcast}, and the target has {shape}: an in-place operation cannot make its target "
        "larger.",
        (
            "Out of place: `x = x + t`.",
            "Inside `vmap`, where the target is not batched, make it from the batched input: `torch.zeros_like(x)`.",
        ),
    ),
    ErrorEntry(
        "index-shape",
        "shape-dtype",
        r"shape mismatch: value tensor of shape (?P<value>\[[^\]]*\]) cannot be broadcast to "
        r"indexing result of shape (?P<target>\[[^\]]*\])",
        "op",
        "`x[idx] = v`: `v` has shape {value}, the selected part of `x` has {target}.",
        ("Bring the value to the shape of `x[idx]`: `v.reshape(x[idx].shape)`, or `v.unsqueeze(...)` to broadcast.",),
    ),
    ErrorEntry(
        "result-type",
        "shape-dtype",
        r"result type (?P<result>\w+) can't be cast to the desired output type (?P<target>\w+)",
        "op",
        "The result is of type {result} and the target of type {target}: in place, the target's dtype stays.",
        (
            "Out of place: `x = x / 2`.",
            "Or keep the type: `x //= 2`; or make the target a float tensor: `x = x.float()`.",
        ),
    ),
    ErrorEntry(
        "index-put-dtype",
        "shape-dtype",
        r"Index put requires the source and destination dtypes match, "
        r"got (?P<target>\w+) for the destination and (?P<source>\w+) for the source",
        "op",
        "`x[idx] = v`: `x` is {target} and `v` is {source}; assignment through an index does not convert.",
        (_CAST_SOURCE,),
    ),
    ErrorEntry(
        "abs-complex",
        "shape-dtype",
        r"In-place abs is not supported for complex tensors",
        "op",
        "`abs_()` of a complex tensor is real, and the target is complex.",
        ("`x = x.abs()`.",),
    ),
    ErrorEntry(
        "zero-tensor",
        "transform",
        r"ZeroTensors are immutable",
        "op",
        "The target is a ZeroTensor: a gradient or tangent that is known to be zero and has no memory of its own.",
        ("Copy before the write: `t = t.clone()`, or write out of place: `t = t + 1`.",),
    ),
    ErrorEntry(
        "meta-argument",
        "shape-dtype",
        r"Cannot inplace into non-meta tensor with meta tensor argument",
        "op",
        "A real tensor is written with a value on the meta device, which has no data.",
        ("Move the module off the meta device first: `module.to_empty(device='cpu')`, then load its weights.",),
    ),
    ErrorEntry(
        "sparse-transpose",
        "shape-dtype",
        r"(?P<op>torch\.\w+_): in-place transposition is not supported for (?P<layout>\w+) layout",
        "op",
        "`{op}` cannot change a {layout} tensor in place.",
        ("Out of place: `x = x.transpose(0, 1)`.",),
    ),
    ErrorEntry(
        "sparse-uncoalesced",
        "shape-dtype",
        r"\b(?P<op>[a-z]\w*_) requires coalesced input",
        "op",
        "`{op}` was called on a sparse tensor that holds some index more than once.",
        ("`x = x.coalesce()` first, or the out-of-place form.",),
    ),
    ErrorEntry(
        "sparse-assign",
        "shape-dtype",
        r"Cannot assign to a sparse tensor",
        "op",
        "Assignment through an index is not possible on a sparse tensor.",
        ("Make it dense first: `x = x.to_dense()`, or build a new sparse tensor from changed indices and values.",),
    ),
    ErrorEntry(
        "mkldnn-inplace",
        "shape-dtype",
        r"(?P<op>mkldnn_\w+_): in-place mkldnn operations are not supported",
        "op",
        "An mkldnn tensor has no in-place `{op}`.",
        ("Out of place: `x = x.transpose(0, 1)`, or convert with `x.to_dense()`.",),
    ),
    # --- custom autograd.Function -------------------------------------------------------------------------------------
    ErrorEntry(
        "dirty-not-returned",
        "dirty",
        r"Some elements marked as dirty during the forward method were not returned as output",
        "op",
        "`ctx.mark_dirty(x)` was called, but forward does not return that same `x`.",
        ("Return the very tensor that was written: `ctx.mark_dirty(x); x.add_(1); return x`.",),
    ),
    ErrorEntry(
        "dirty-view",
        "dirty",
        r"If your Function modifies in-?place an input that is a view of another Tensor, "
        r"your Function cannot return more than one Tensor",
        "op",
        "A custom Function marks a view as dirty and returns more than one tensor; autograd can follow only one.",
        (
            "Give the Function a copy: `Fn.apply(v.clone())`.",
            "Or split it in two: one Function that writes and returns one tensor, one for the rest.",
        ),
    ),
    ErrorEntry(
        "dirty-single-output",
        "dirty",
        r"Functions which modify views in-?place must return a single Variable",
        "op",
        "A Function writes into a view and has more than one output.",
        ("Give the Function a copy: `Fn.apply(v.clone())`.",),
    ),
    ErrorEntry(
        "dirty-not-input",
        "dirty",
        r"ctx\.mark_dirty\(\) received a tensor that was not an input"
        r"|Only input Tensors should be given to ctx\.mark_dirty\(\)",
        "op",
        "`ctx.mark_dirty` was given a tensor that forward made itself (a warning). It is meant for inputs only.",
        ("Drop the `ctx.mark_dirty` call: a new tensor needs none.",),
    ),
    ErrorEntry(
        "dirty-not-tensor",
        "dirty",
        r"mark_dirty can only accept variables, but argument",
        "op",
        "`ctx.mark_dirty` was given something that is no tensor.",
        ("Pass the written input tensors only: `ctx.mark_dirty(x)`.",),
    ),
    ErrorEntry(
        "dirty-jvp",
        "dirty",
        r"An in-?place custom Function is not modifying the forward mode gradients in-?place",
        "op",
        "forward writes its input in place, but jvp returns a new tangent.",
        ("Write the tangent in place as well: `t.mul_(2); return t`.",),
    ),
    ErrorEntry(
        "dirty-jvp-returned",
        "dirty",
        r"An in-?place custom Function is not returning the forward mode gradients as-is",
        "op",
        "jvp writes the tangent in place, but returns another object than the tangent it was given.",
        ("Return the very tangent: `return t`, not `t.view_as(t)`.",),
    ),
    # --- forward-mode AD and torch.func -------------------------------------------------------------------------------
    ErrorEntry(
        "forward-out",
        "transform",
        r"Trying to use forward AD with (?P<op>\w+) that does not support it because it is an out= function",
        "op",
        "An `out=` call has an argument that carries a tangent; forward-mode AD cannot follow `out=`.",
        (_NO_OUT,),
    ),
    ErrorEntry(
        "forward-no-derivative",
        "transform",
        r"Trying to use forward AD with (?P<op>\w*[A-Za-z0-9]_) that does not support it",
        "op",
        "`{op}` has no forward-mode derivative.",
        ("Use an operation that has one, or reverse mode: `torch.func.vjp`, `backward()`.",),
    ),
    ErrorEntry(
        "forward-resize",
        "transform",
        r"cannot resize variables that has a forward grad",
        "op",
        "`resize_` was called on a tensor that carries a tangent.",
        ("Build a new tensor: `F.pad(x, (0, 1))`, `torch.cat`, `x.reshape(...)`.",),
    ),
    ErrorEntry(
        "forward-reset",
        "transform",
        r"Cannot set a value of a forward grad if it already exists\. Inplace operations should modify it inplace"
        r"|Only inplace operations can re-set the forward grad",
        "op",
        "Something gave a tensor a second tangent instead of changing the one it has.",
        ("Write out of place, so that the result is a tensor of its own.",),
    ),
    ErrorEntry(
        "vmap-unbatched",
        "transform",
        r"vmap: (?P<op>.{1,100}?)\(self, \*extra_args\) is not possible because there exists a Tensor `other`",
        "op",
        "Inside `vmap` a value that differs from sample to sample is written into a tensor that is one for all "
        "samples ({op}).",
        (
            "Make the target from the batched input: `torch.zeros_like(x)` or `x.new_zeros(3)`, not `torch.zeros(3)`.",
            "Or write out of place: `r = r * x`.",
        ),
    ),
    ErrorEntry(
        "vmap-random-inplace",
        "transform",
        r"vmap: Cannot ask for different in-?place randomness on an unbatched tensor",
        "op",
        "Inside `vmap` a tensor that is one for all samples is filled with random numbers, and each sample should get "
        "its own.",
        ("Make it from the batched input: `torch.randn_like(x)` instead of `torch.ones(3).normal_()`.",),
    ),
    ErrorEntry(
        "vmap-out",
        "transform",
        r"Batching rule not implemented for (?P<op>[\w:]+)\.(?:\w*_)?out\b",
        "op",
        "`{op}` was called with `out=` inside `vmap`.",
        (_NO_OUT,),
    ),
    ErrorEntry(
        "vmap-batch-norm",
        "transform",
        r"Batch norm got a batched tensor as input while the running_mean or running_var, "
        r"which will be updated in place, were not batched",
        "op",
        "BatchNorm in training mode writes its running statistics, and inside `vmap` they are one for all samples.",
        (
            "`nn.BatchNorm1d(3, track_running_stats=False)`.",
            "For a whole model: `torch.func.replace_all_batch_norm_modules_(net)`.",
        ),
    ),
    ErrorEntry(
        "captured",
        "transform",
        r"attempted to call in-place operation \((?P<op>[^)]*)\) that would mutate a captured Tensor",
        "op",
        "Inside a torch.func transform, {op} writes into a tensor that lives outside the transformed function: a "
        "buffer, a running statistic, a cache.",
        (_STATE_IN_OUT,),
    ),
    ErrorEntry(
        "transform-data",
        "transform",
        r"mutating directly with `\.data` inside functorch transform",
        "op",
        "`x.data = ...` is assigned inside a torch.func transform.",
        ("Rebind the name: `x = torch.zeros_like(x)`.",),
    ),
    ErrorEntry(
        "transform-requires-grad",
        "transform",
        r"You are attempting to call Tensor\.requires_grad_\(\)"
        r" \(or perhaps using torch\.autograd\.functional\.\* APIs\) inside of a function being transformed",
        "op",
        "`requires_grad_()` is called inside a function that torch.func transforms.",
        ("Drop the call: the transform already tracks its argument. For a nested gradient use `torch.func.grad`.",),
    ),
    ErrorEntry(
        "functionalize-captured",
        "transform",
        r"mutating a non-functional tensor with a functional tensor is not allowed",
        "op",
        "Inside `functionalize` (or while compiling) a tensor that is not an argument of the function is written.",
        ("Pass the written tensor as an argument of the function.",),
    ),
    ErrorEntry(
        "functionalize-overlap",
        "transform",
        r"functionalization encountered a tensor being mutated that has internal overlap",
        "op",
        "The target's elements overlap in memory (`unfold`, `expand`), so the result of the write is not defined.",
        ("Copy before the write: `y = y.clone(); y.add_(1)`.",),
    ),
    # --- inference mode -----------------------------------------------------------------------------------------------
    ErrorEntry(
        "inference-write",
        "inference",
        r"Inplace update to inference tensor outside InferenceMode is not allowed",
        "op",
        "The tensor was made under `inference_mode` and is written outside of it. Such tensors carry none of the "
        "bookkeeping that autograd needs.",
        (
            "Copy it outside the block: `t = t.clone()`, then write.",
            "Or make it under `torch.no_grad()` instead of `torch.inference_mode()`.",
        ),
    ),
    ErrorEntry(
        "inference-saved",
        "inference",
        r"Inference tensors cannot be saved for backward",
        "op",
        "A tensor made under `inference_mode` takes part in an operation that has to keep it for backward.",
        (
            "Copy it outside the block: `t = t.clone()`.",
            "Or make it under `torch.no_grad()` instead of `torch.inference_mode()`.",
        ),
    ),
    ErrorEntry(
        "inference-requires-grad",
        "inference",
        r"Setting requires_grad=True on inference tensor outside InferenceMode is not allowed",
        "op",
        "`requires_grad_()` is called on a tensor that was made under `inference_mode`.",
        ("Copy it outside the block first: `t = t.clone().requires_grad_()`.",),
    ),
    # --- torch.compile, export, custom operators ----------------------------------------------------------------------
    ErrorEntry(
        "compile-as-strided",
        "compiled",
        r"encountered a mutation on a view chain of length (?P<length>\d+), where view (?P<view>\d+) was an as_strided",
        "compile",
        "The compiled function writes through a chain of views with `as_strided` inside it; "
        "the compiler cannot turn that into out-of-place code.",
        ("Index instead of `as_strided`: `x[:2] += 1`.", "Or copy before the write: `w = w.clone()`."),
    ),
    ErrorEntry(
        "compile-inplace-view",
        "compiled",
        r"Getting an in-?place view on a graph input is not supported",
        "compile",
        "The compiled function changes the shape of its argument in place (`t_`, `unsqueeze_`, `squeeze_`, `resize_`).",
        ("Out of place: `x = x.t()`.",),
    ),
    ErrorEntry(
        "compile-requires-grad",
        "compiled",
        r"returning intermediate with requires_grad_\(\)|Unsupported Tensor\.requires_grad_\(\) call",
        "compile",
        "A tensor made inside the compiled function got `requires_grad_()`; the compiled code would lose that flag.",
        (
            "Call `requires_grad_()` outside the compiled function.",
            "If only the values are wanted: `return y.detach()`.",
        ),
    ),
    ErrorEntry(
        "higher-order-mutation",
        "compiled",
        r"Encountered input mutation during higher order op tracing|might be modifying the input!",
        "compile",
        "A branch or body given to `torch.cond`, `while_loop`, `scan` or `map` writes into its input.",
        ("Out of place inside the branch: `x + 1` instead of `x.add_(1)`.",),
    ),
    ErrorEntry(
        "higher-order-alias",
        "compiled",
        r"Encountered aliasing during higher order op tracing|might be aliasing the input",
        "compile",
        "A branch or body given to `torch.cond`, `while_loop`, `scan` or `map` returns its input, or a view of it.",
        ("Return a copy: `lambda x: x.clone()`.",),
    ),
    ErrorEntry(
        "custom-op-alias",
        "compiled",
        r"The output of this custom operator \(1\) must not also be an input to this custom operator"
        r"|Tensors returned from custom ops \(1\) must not be inputs to the custom op",
        "op",
        "A `torch.library` operator returns one of its inputs, or a view of one.",
        ("Return a copy: `return x.clone()`.", "Or return nothing, and declare the write: `mutates_args=('x',)`."),
    ),
    ErrorEntry(
        "custom-op-undeclared",
        "compiled",
        r"Argument (?P<argument>\w+) is not defined as mutable but was mutated",
        "op",
        "A custom operator writes into its argument `{argument}`, and its schema does not say so.",
        ("Declare it: `mutates_args=('x',)`, or `Tensor(a!) x` in a schema.", "Or write into a copy: `x = x.clone()`."),
    ),
    ErrorEntry(
        "custom-op-formula",
        "compiled",
        r"Cannot register autograd formula for non-functional operator",
        "op",
        "A custom operator that writes into an argument cannot have a derivative.",
        ("Register a second operator that returns a new tensor, give that one the formula, and copy its result.",),
    ),
    ErrorEntry(
        "cudagraph-overwritten",
        "compiled",
        r"accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run",
        "use",
        "A tensor that a compiled function returned is used after the function ran again: the second run wrote its "
        "result over the first.",
        (
            "Copy what must outlive the next call: `y = f(x).clone()`.",
            "Or call `torch.compiler.cudagraph_mark_step_begin()` before each call.",
        ),
    ),
    ErrorEntry(
        "trace-live-references",
        "compiled",
        r"live references to the data region being modified when tracing in-place operator (?P<op>\w+)",
        "compile",
        "`torch.jit.trace` met the in-place operation `{op}` on memory that other tensors also show (a warning): "
        "the traced program may give other values than this one.",
        ("Out of place in the traced function: `x = x + 1`.",),
    ),
    # --- texts that other programs raise as well ----------------------------------------------------------------------
    ErrorEntry(
        "not-in-graph",
        "replaced",
        r"(?:The differentiated Tensor at index (?P<index>\d+)|One of the differentiated Tensors) "
        r"appears to not have been used in the graph",
        "backward",
        "A gradient is asked for a tensor that the result does not depend on. Most often it really plays no part. "
        "In-place is one possible cause: a write gave the tensor a new place in the graph after the result was "
        "computed from the old one.",
        (
            "If it was written in place: keep the old value under its own name, `y2 = y + 1`, and ask for `y`.",
            "If it plays no part: leave it out, or pass `allow_unused=True`.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "no-grad-fn",
        "detached",
        r"element (?P<index>\d+) of tensors does not require grad and does not have a grad_fn",
        "backward",
        "Nothing that requires grad leads to the loss. In-place is only one possible cause: a `detach_()`, a "
        "`requires_grad_(False)`, or a value that reached the loss by `.data`, numpy or a write under `no_grad`.",
        (
            "If there is a `detach_()` on the way: drop it, or use `y = y.detach()` on a branch of its own.",
            "Otherwise look for `no_grad`, `.item()`, `.numpy()`, `argmax` or frozen parameters on the way.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "second-backward",
        "freed",
        r"Trying to backward through the graph a second time",
        "backward",
        "Backward went through a part of the graph that an earlier backward has freed. It is no in-place error by "
        "itself, but `retain_graph=True` often turns it into one: by then the optimizer has changed the weights.",
        (
            "Cut the carried state between steps: `h = h.detach()`, for an LSTM `h = tuple(t.detach() for t in h)`.",
            "Two losses from one forward: add them and run one backward.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "no-derivative-argument",
        "underivable",
        r"the derivative for '(?P<what>[^']*)' is not implemented",
        "backward",
        "An operation has no derivative for the argument `{what}`, in place or not.",
        ("Use another operation, or keep that argument out of the graph: `.detach()`.",),
        certain=False,
    ),
    ErrorEntry(
        "invalid-gradient",
        "silent-data",
        r"Function (?P<op>\w+?)(?:Backward\d*)? returned an invalid gradient at index (?P<index>\d+) - "
        r"got (?P<got>\[[^\]]*\]) but expected shape compatible with (?P<expected>\[[^\]]*\])",
        "backward",
        "The backward of {op} gave a gradient of shape {got} where {expected} was expected. One possible cause is an "
        "assignment to `.data` (or a resize) between forward and backward; a wrong custom backward is another.",
        (
            "Change the tensor only after backward: `with torch.no_grad(): x.copy_(new)`.",
            "In a custom Function: return gradients of the inputs' shapes.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "sizes",
        "shape-dtype",
        r"The size of tensor a \((?P<a>\d+)\) must match the size of tensor b \((?P<b>\d+)\)",
        "op",
        "Two shapes do not broadcast ({a} against {b}). Any operation says this. In-place causes among others: "
        "`copy_` of another shape, or in backward a tensor whose `.data` was replaced by one of another shape.",
        (
            "Compare the two shapes at the line that raises.",
            "If it is raised inside backward: give the tensor its new value only after backward.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "expanded-size",
        "shape-dtype",
        r"The expanded size of the tensor \((?P<target>\d+)\) must match the existing size \((?P<existing>\d+)\)",
        "op",
        "A tensor of size {existing} does not fit into a size of {target}. `x[i] = t` says this where `t` has another "
        "shape than `x[i]`; so does a plain `expand`.",
        ("Bring the value to the shape of the target: `x[i] = t.reshape(x[i].shape)`.",),
        certain=False,
    ),
    ErrorEntry(
        "scatter-dtype",
        "shape-dtype",
        r"(?P<op>scatter\w*)\(\): Expected self\.dtype to be equal to src\.dtype",
        "op",
        "`{op}` does not convert: target and source must have one dtype, in place or not.",
        ("Cast the source: `x.scatter_(0, idx, src.to(x.dtype))`. Under autocast this is the usual case.",),
        certain=False,
    ),
    ErrorEntry(
        "index-add-dtype",
        "shape-dtype",
        r"(?P<op>index_\w+)\(\): self \((?P<target>\w+)\) and source \((?P<source>\w+)\) "
        r"must have the same scalar type",
        "op",
        "`{op}`: the target is {target} and the source is {source}; neither form converts.",
        ("Cast the source: `x.index_add_(0, idx, src.to(x.dtype))`. Under autocast this is the usual case.",),
        certain=False,
    ),
    ErrorEntry(
        "index-copy-dtype",
        "shape-dtype",
        r"(?P<op>index_\w+)\(\): self and source expected to have the same dtype, "
        r"but got \(self\) (?P<target>\w+) and \(source\) (?P<source>\w+)",
        "op",
        "`{op}`: the target is {target} and the source is {source}; neither form converts.",
        ("Cast the source: `x.index_copy_(0, idx, src.to(x.dtype))`. Under autocast this is the usual case.",),
        certain=False,
    ),
    ErrorEntry(
        "masked-scatter-dtype",
        "shape-dtype",
        r"masked_scatter_?: expected self and source to have same dtypes but got ?(?P<target>\w+) and (?P<source>\w+)",
        "op",
        "`masked_scatter`: the target is {target} and the source is {source}; neither form converts.",
        ("Cast the source: `x.masked_scatter_(mask, src.to(x.dtype))`. Under autocast this is the usual case.",),
        certain=False,
    ),
    ErrorEntry(
        "matmul-dtype",
        "shape-dtype",
        r"self and (?P<argument>mat\w*|batch\w*|vec\w*) must have the same dtype, "
        r"but got (?P<target>\w+) and (?P<source>\w+)",
        "op",
        "A matrix product of {target} and {source}. In-place forms such as `addmm_` say this; so do the plain ones.",
        ("Bring both to one dtype: `b.to(a.dtype)`.",),
        certain=False,
    ),
    ErrorEntry(
        "sparse-dense-add",
        "shape-dtype",
        r"add\(sparse, dense\) is not supported\. Use add\(dense, sparse\) instead",
        "op",
        "A dense tensor is added to a sparse one, in place or not: the sum is dense.",
        ("Turn it round: `dense + sparse`.",),
        certain=False,
    ),
    ErrorEntry(
        "imag-of-real",
        "shape-dtype",
        r"imag is not implemented for tensors with non-complex dtypes",
        "op",
        "`.imag` of a real tensor, read or assigned. `x.imag = v` is an in-place write into a view.",
        ("Use a complex tensor: `x = x.to(torch.complex64)`, or `torch.complex(x, v)`.",),
        certain=False,
    ),
    ErrorEntry(
        "meta-copy",
        "shape-dtype",
        r"Cannot copy out of meta tensor; no data!",
        "op",
        "A tensor on the meta device has no data to copy, by `copy_`, `load_state_dict` or `.to()`.",
        (
            "`module.to_empty(device='cpu')`, then load the weights.",
            "Or `module.load_state_dict(state, assign=True)`.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "requires-grad-integer",
        "autograd-state",
        r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require gradients",
        "op",
        "An integer or bool tensor cannot require grad, whether by `requires_grad_()` or when it is made.",
        ("Cast first: `x = x.float().requires_grad_()`.",),
        certain=False,
    ),
    ErrorEntry(
        "resize-storage",
        "autograd-state",
        r"Trying to resize storage that is not resizable",
        "op",
        "The memory belongs to numpy, to another process or to a file and cannot grow. `resize_` says this; so does a "
        "DataLoader whose samples differ in shape.",
        (
            "Make a tensor of its own first: `t = torch.from_numpy(a).clone()`.",
            "In a DataLoader: pad the samples to one shape, or give a `collate_fn`.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "uninitialised-parameter",
        "autograd-state",
        r"Attempted to use an uninitialized parameter in (?P<method>[^.]{1,120}?)",
        "op",
        "A lazy module's parameter has no shape yet, so it can be neither written nor read.",
        ("Run one dummy batch through the module first, then initialise the weights.",),
        certain=False,
    ),
    ErrorEntry(
        "rebound-parameter",
        "leaf",
        r"cannot assign '(?P<type>[^']*)' as parameter '(?P<name>[^']*)' \(torch\.nn\.Parameter or None expected\)",
        "op",
        "A computed tensor is assigned to the module's parameter `{name}`. That is what becomes of `m.{name} += 1` "
        "when it is rewritten as `m.{name} = m.{name} + 1`.",
        (
            "To change the parameter: `with torch.no_grad(): m.weight += 1`.",
            "To use another value in the graph: `F.linear(x, m.weight + 1, m.bias)`.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "numpy-of-grad",
        "silent-alias",
        r"Can't call numpy\(\) on Tensor that requires grad",
        "op",
        "numpy cannot follow gradients. Mind the advice in the message: `.detach().numpy()` shares the tensor's "
        "memory, and a write to that array changes what backward needs without any error.",
        ("Take a copy: `a = x.detach().cpu().numpy().copy()`.",),
        certain=False,
    ),
    ErrorEntry(
        "recomputed-metadata",
        "recomputed",
        r"Recomputed values for the following tensors have different metadata than during the forward pass",
        "backward",
        "When backward ran the checkpointed function again, its tensors had other shapes or dtypes. A tensor that it "
        "uses may have been resized or replaced since; other state that changed (a flag, autocast) does the same.",
        (
            "Leave what a checkpointed function uses alone until its backward is done.",
            "Pass tensors as arguments of `checkpoint`, not by closure.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "recomputed-number",
        "recomputed",
        r"A different number of tensors was saved during the original forward and recomputation",
        "backward",
        "When backward ran the checkpointed function again, it went another way than the first time: state that "
        "decides its way was changed in between.",
        (
            "Leave what a checkpointed function uses alone until its backward is done.",
            "Pass tensors as arguments of `checkpoint`, not by closure.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "mutation-context-left",
        "saved",
        r"Trying to backward outside of the 'allow_mutation_on_saved_tensors' ?context",
        "backward",
        "The graph was recorded in a context that lets saved tensors be written, and backward runs outside of it.",
        (
            "Leave the context out and write out of place: `y = y + 1`. "
            "The context misses writes through slices and lets wrong gradients pass.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "mutation-context-nested",
        "saved",
        r"allow_mutation_on_saved_tensors contexts cannot be nested",
        "op",
        "A context that lets saved tensors be written was entered twice.",
        (
            "Leave the context out and write out of place: `y = y + 1`. "
            "The context misses writes through slices and lets wrong gradients pass.",
        ),
        certain=False,
    ),
    ErrorEntry(
        "hooks-already-set",
        "autograd-state",
        r"Calling register_hooks on a saved tensor whose hooks have already been set",
        "op",
        "A saved tensor can have one pair of hooks, and it has one already.",
        ("Register the hooks once for each saved tensor, or do the work of both in one pair.",),
        certain=False,
    ),
    ErrorEntry(
        "hooks-freed",
        "autograd-state",
        r"Calling register_hooks on a saved tensor after it has been freed",
        "op",
        "The saved tensor was freed by an earlier backward.",
        ("Register the hooks before backward, or pass `retain_graph=True` to it.",),
        certain=False,
    ),
    ErrorEntry(
        "hooks-none",
        "autograd-state",
        r"Calling register_hooks on a saved tensor with value None is forbidden",
        "op",
        "The node keeps nothing in this place (an optional argument that was left out).",
        ("Test the `_saved_...` attribute for `None` first.",),
        certain=False,
    ),
    ErrorEntry(
        "vmap-mask",
        "transform",
        r"vmap: We do not support batching operators that can support dynamic shape\. "
        r"Attempting to batch over indexing with a boolean mask",
        "op",
        "Inside `vmap` a boolean mask selects elements, in `x[mask] = v` or in `x[mask]`: how many differs from sample "
        "to sample.",
        ("`torch.where(mask, v, x)` instead of `x[mask] = v`.",),
        certain=False,
    ),
    ErrorEntry(
        "vmap-random",
        "transform",
        r"vmap: called random operation while in randomness error mode",
        "op",
        "A random operation, in place (`normal_`) or not, runs inside `vmap`, which forbids it unless told otherwise.",
        ("`torch.func.vmap(f, randomness='different')`, and `torch.randn_like(x)` for random tensors.",),
        certain=False,
    ),
    ErrorEntry(
        "inference-version",
        "inference",
        r"Inference tensors do not track version counter",
        "op",
        "`_version` was read on a tensor made under `inference_mode`, which has none.",
        ("Test first: `if not t.is_inference():`.",),
        certain=False,
    ),
)

BY_NAME: dict[str, ErrorEntry] = {entry.name: entry for entry in ENTRIES}

_WRAPPED = (
    r"when making fake tensor call|failed to run FX node|Failed running call_|backend='[^']*' raised:"
    r"|BackendCompilerFailed"
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _plain(message: str) -> str:
    """The text on one line, and without the escapes of a message that was quoted inside another."""
    return " ".join(message.replace("\\n", " ").replace("\\'", "'").split())


def recognise(message: str) -> Match | None:
    """The catalogue's entry for an error, None for an error that has nothing to do with in-place operations.

    Args:
        message: the message alone, or any text around it: a whole traceback, a log, the wrapping of torch.compile.
    """
    text = _plain(message)
    for entry in ENTRIES:
        found = _compiled(entry.pattern).search(text)
        if found:
            groups = {name: value for name, value in found.groupdict().items() if value is not None}
            wrapped = _compiled(_WRAPPED).search(text)
            return Match(entry, groups, "compile" if wrapped else entry.raised)
    return None


def parse_version_error(message: str) -> VersionError | None:
    """What the message about a saved tensor says of it, None for any other message."""
    found = _compiled(_VERSION).search(_plain(message))
    if found is None:
        return None
    sizes, output = found["sizes"], found["output"]
    numbers = re.fullmatch(r"\[([\d, ]*)\]", sizes)
    return VersionError(
        type=found["type"],
        sizes=tuple(int(size) for size in numbers[1].replace(",", " ").split()) if numbers else None,
        output=None if output is None else int(output),
        op=found["op"],
        version=int(found["version"]),
        expected=int(found["expected"]),
    )
