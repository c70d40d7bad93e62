"""One tensor, or one piece of memory, that a list or dict holds more than once."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

_WHY_APPENDED = (
    "A list keeps references, not copies, and so does a dict: each entry is this one tensor, which is changed in place "
    "between two of them. At the end all show its last values."
)

SAME_TENSOR_APPENDED = SilentRule(
    "OUT308",
    "same-tensor-appended",
    "a list keeps one tensor again and again, and in-place writes change all of its entries",
    of="silent-other",
    message="a list keeps this tensor by reference, again and again, and each write changes all of its entries: "
    "append clones",
    check="warning",
    why=_WHY_APPENDED,
    remedy="Keep copies: `history.append({copy})`.",
    holder="a list",
    detector="same_tensor_appended",
    fix="Append copies",
    form="kept_copies",
)

SAME_VIEW_APPENDED = SilentRule(
    "OUT309",
    "same-view-appended",
    "a list keeps views of the same part of one tensor, and in-place writes change all of its entries",
    of="silent-other",
    message="a list keeps views of this memory, again and again, and each write changes all of its entries: append "
    "clones",
    check="warning",
    why="A list keeps references, not copies: each entry is a view of the same part of one tensor, which is changed "
    "in place between two of them. At the end all show its last values.",
    remedy="Keep copies: `history.append({copy})`.",
    holder="a list",
    detector="same_tensor_appended",
    fix="Append copies",
    form="kept_copies",
)

SAME_TENSOR_REPEATED = SilentRule(
    "OUT310",
    "same-tensor-repeated",
    "a list or dict holds one tensor many times (`[x] * n`), and a write to one entry changes all",
    of="silent-other",
    message="this one tensor stands in a list or dict many times, and a write to one entry is a write to all of them",
    check="error",
    why="This one tensor stands in a list or dict many times (`[x] * n` copies the reference, not the tensor). A "
    "write to one of its entries is a write to all of them.",
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
    message="a list keeps arrays that lie in this memory, again and again, and each write changes all of its entries: "
    "append copies",
    check="warning",
    headline="{tensor} was changed by {op} between two entries of a list, which all lie in its memory",
    why="Each entry that is kept here lies in the same memory, which is changed between two of them: arrays and "
    "tensors made of each other share it. At the end all entries show its last values.",
    remedy="Keep copies: `frames.append(x.numpy().copy())`, `torch.from_numpy(state.copy())`.",
    holder="a list",
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
    headline="{tensor} was changed by {op}, while an array over its memory is still read for what it held before",
    why="An array made of a tensor shares its memory. Here the same memory is handed out again, filled anew, while "
    "the caller still reads the array from before, `{name}`: both show the new values.",
    remedy="Hand out copies: `x.numpy().copy()`.",
    holder="an array",
    detector="numpy_buffer_reused",
    fix="Hand out copies",
    form="handed_out",
)

ARRAY_PART_WRITTEN = SilentRule(
    "OUT313",
    "array-part-written",
    "a tensor made of a part of an array is rescaled in place, and the same part is taken again",
    of="silent-alias",
    message="this tensor lies in the memory of an array, and this changes the array: the same part is taken from it "
    "again later, changed already: make the tensor of a copy",
    check="warning",
    headline="{tensor} was changed by {op} in each epoch, and the array still has what the epoch before made of it",
    why="This tensor lies in the memory of an array: `from_numpy` and `as_tensor` make no copy. The write changes the "
    "array, and when the same part is taken again, what is normalised already is normalised once more.",
    remedy="Write out of place: `(x - mean) / std`, or make the tensor of a copy: `torch.tensor(array[i:j])`.",
    holder="an array",
    detector="rescaled_again",
    fix="Give the tensor memory of its own",
    form="own_parts",
)
