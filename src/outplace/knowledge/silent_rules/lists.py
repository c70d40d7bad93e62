"""One tensor, or one piece of memory, that a list or dict holds more than once."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

_WHY_APPENDED = (
    "Lists and dicts keep references, not copies. Each entry is this one tensor, which is changed in place between two "
    "appends. At the end all entries show its last values."
)

SAME_TENSOR_APPENDED = SilentRule(
    "OUT308",
    "same-tensor-appended",
    "a list keeps one tensor again and again, and in-place writes change all of its entries",
    of="silent-other",
    message="a list holds this tensor several times without a copy, and each write changes all of these entries: "
    "append clones",
    check="warning",
    why=_WHY_APPENDED,
    remedy="Keep copies: `history.append({copy})`.",
    holder="a list",
    kept=True,
    detector="same_tensor_appended",
    fix="Append copies",
    form="kept_copies",
)

SAME_VIEW_APPENDED = SilentRule(
    "OUT309",
    "same-view-appended",
    "a list keeps views of the same part of one tensor, and in-place writes change all of its entries",
    of="silent-other",
    message="a list holds several views of this memory, and each write changes all of them: append clones",
    check="warning",
    why="A list keeps references, not copies. Each entry is a view of the same part of one tensor, and this part is "
    "changed in place between two appends. At the end all entries show its last values.",
    remedy="Keep copies: `history.append({copy})`.",
    holder="a list",
    kept=True,
    detector="same_tensor_appended",
    fix="Append copies",
    form="kept_copies",
)

SAME_TENSOR_REPEATED = SilentRule(
    "OUT310",
    "same-tensor-repeated",
    "a list or dict holds one tensor many times (`[x] * n`), and a write to one entry changes all",
    of="silent-other",
    message="a list or dict holds this tensor several times, and a write to one entry changes all of them",
    check="error",
    why="A list or dict holds this tensor several times: `[x] * n` copies the reference, not the tensor. A write to "
    "one entry changes all of them.",
    remedy="Make one tensor for each entry: `[torch.zeros(3) for _ in range(n)]`.",
    detector="same_tensor_repeated",
    fix="Make a tensor for each entry",
    form="own_entries",
)

SAME_BUFFER_APPENDED = SilentRule(
    "OUT311",
    "same-buffer-appended",
    "a list keeps arrays or tensors over one memory, which is changed in between",
    of="silent-alias",
    message="a list holds several arrays over this memory, and each write changes all of them: append copies",
    check="warning",
    headline="{tensor} was changed by {op} between two appends to a list whose entries share its memory",
    why="All these entries share one memory, which is changed between two appends. An array and the tensor made from "
    "it share their memory. At the end all entries show its last values.",
    remedy="Keep copies: `frames.append(x.numpy().copy())`, `torch.from_numpy(state.copy())`.",
    holder="a list",
    kept=True,
    detector="same_buffer_appended",
    fix="Keep copies",
    form="kept_arrays",
)

NUMPY_BUFFER_REUSED = SilentRule(
    "OUT312",
    "numpy-buffer-reused",
    "an array over a tensor's memory is returned again, while a caller still reads the earlier one",
    of="silent-alias",
    no_check="Whether a caller, often of another library, still reads the earlier array is not in the file.",
    headline="{tensor} was changed by {op}, and an array over its memory is still used for the old values",
    why="An array made from a tensor shares its memory. This memory was filled again while the caller still reads "
    "the earlier array, `{name}`: both show the new values.",
    remedy="Return copies: `x.numpy().copy()`.",
    holder="an array",
    kept=True,
    detector="numpy_buffer_reused",
    fix="Hand out copies",
    form="handed_out",
)

ARRAY_PART_WRITTEN = SilentRule(
    "OUT313",
    "array-part-written",
    "a tensor made of a part of an array is rescaled in place, and the same part is taken again",
    of="silent-alias",
    message="this tensor shares the memory of an array, so this changes the array, and the same part is used again "
    "later: make the tensor from a copy",
    check="warning",
    headline="{tensor} was changed by {op} in each epoch, and the array kept the changes of the epoch before",
    why="This tensor shares the memory of an array: `from_numpy` and `as_tensor` make no copy. The write changes the "
    "array, so in the next epoch the same part is normalised a second time.",
    remedy="Write out of place: `(x - mean) / std`. Or make the tensor from a copy: `torch.tensor(array[i:j])`.",
    holder="an array",
    kept=True,
    detector="rescaled_again",
    fix="Give the tensor memory of its own",
    form="own_parts",
)

HOOKED_OUTPUT_WRITTEN = SilentRule(
    "OUT343",
    "hooked-output-written",
    "a forward hook keeps the output of a module, and a later module overwrites it",
    of="silent-other",
    no_check="check does not follow what a hook keeps.",
    headline="{tensor}, which a forward hook has kept, was overwritten by {op}",
    why="The hook {hook} keeps the output itself, not a copy. A later operation writes to it in place, so the kept "
    "values are not those of the module.",
    remedy="Keep a copy in the hook: `output.clone()`. Or build the later module with `inplace=False`.",
    holder="a hook",
    detector="hooked_output_written",
    no_fix="Some programs want the values after the operation: the hook does not show which.",
)
