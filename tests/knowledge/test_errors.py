"""The catalogue against PyTorch itself: every entry is raised for real, by the programs in `programs.py`."""

from __future__ import annotations

import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator

import pytest
import torch

from outplace.knowledge import kinds
from outplace.knowledge.errors import BY_NAME, ENTRIES, VersionError, parse_version_error, recognise

from .programs import COMPILED, COMPILED_THEN_WRITTEN, PRELUDE, PROGRAMS, UNTRIGGERED, Program

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])


def ids(programs: tuple[Program, ...]) -> list[str]:
    return [f"{number}-{program.entry}" for number, program in enumerate(programs)]


def texts(program: Program) -> Iterator[str]:
    """What the program says: its warnings, or its exception's message, alone and inside a whole traceback."""
    if program.torch and not program.torch[0] <= TORCH <= program.torch[1]:
        pytest.skip(f"torch {torch.__version__}: {program.reason}")
    if program.entry == "mkldnn-inplace" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch is built without mkldnn")
    namespace: dict[str, object] = {"__name__": "__main__"}
    raised: Exception | None = None
    warn_always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exec(PRELUDE, namespace)
            exec(compile(program.source, "<program>", "exec"), namespace)
    except Exception as error:
        raised = error
    finally:
        torch.set_warn_always(warn_always)
    if program.warning:
        assert raised is None
        yield "\n".join(str(one.message) for one in caught if "deprecated. Please switch" not in str(one.message))
    else:
        assert raised is not None, "nothing was raised"
        yield str(raised)
        yield "".join(traceback.format_exception(raised))


@pytest.mark.parametrize("program", PROGRAMS, ids=ids(PROGRAMS))
def test_what_pytorch_says_is_recognised(program: Program) -> None:
    for text in texts(program):
        match = recognise(text)
        assert match is not None, text
        assert match.entry.name == program.entry, text
        assert match.raised == match.entry.raised
        assert "{" not in match.cause


@pytest.mark.parametrize("program", COMPILED, ids=ids(COMPILED))
def test_errors_of_torch_compile_are_recognised_inside_their_wrapping(program: Program) -> None:
    for text in texts(program):
        match = recognise(text)
        assert match is not None, text
        assert match.entry.name == program.entry, text
        assert match.raised == "compile"


@pytest.mark.parametrize("program", COMPILED_THEN_WRITTEN, ids=ids(COMPILED_THEN_WRITTEN))
def test_writes_to_the_results_of_a_compiled_function(program: Program) -> None:
    for text in texts(program):
        match = recognise(text)
        assert match is not None, text
        assert match.entry.name == program.entry, text
        if "export" not in program.source:  # it wraps the error in some releases
            assert match.raised == match.entry.raised


def test_every_entry_is_raised_by_a_program_or_has_a_reason_not_to() -> None:
    raised = {program.entry for program in (*PROGRAMS, *COMPILED, *COMPILED_THEN_WRITTEN)}
    assert raised | UNTRIGGERED.keys() == BY_NAME.keys()
    assert not raised & UNTRIGGERED.keys()


HINT = " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation: "
MULTIPLE = (
    " This view is the output of a function that returns multiple views. Such functions do not allow the output views"
)

OTHER_WORDINGS = [
    (
        "saved",
        MODIFIED + "[torch.cuda.FloatTensor [16, 512, 4, 4]], which is output 0 of ReluBackward0, is at version 2; "
        f"expected version 1 instead.{HINT}torch.autograd.set_detect_anomaly(True).",
    ),
    (
        "saved",
        MODIFIED + "[torch.FloatTensor [10, 1]], which is output 0 of TBackward, is at version 2; expected "
        "version 1 instead.",
    ),
    ("saved", "one of the variables needed for gradient computation has been modified by an inplace operation"),
    ("multi-view", "Output 0 of UnbindBackward0 is a view and is being modified inplace." + MULTIPLE),
    (
        "multi-view-later",
        "Output 1 of SplitBackward0 is a view and its base or another view of its base has been modified inplace."
        + MULTIPLE,
    ),
    (
        "nograd-view",
        "Output 0 of SliceBackward0 is a view of a view which was created in no_grad mode and is being modified "
        "inplace with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden.",
    ),
    (
        "custom-view",
        "Output 0 of FlatBackward is a view and is being modified inplace. This view was created inside a custom "
        "Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would "
        "override",
    ),
    (
        "pack-hook",
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be "
        "modified by in-place operations as this can lead to unexpected side-effects.",
    ),
    (
        "not-in-graph",
        "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this "
        "is the desired behavior.",
    ),
    (
        "inference-saved",
        "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor "
        "and use it in autograd.",
    ),
    (
        "dirty-not-input",
        "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no need to pass "
        "it to mark_dirty().",
    ),
    (
        "custom-op-alias",
        "Tensors returned from custom ops (1) must not be inputs to the custom op and (2) may not alias any inputs",
    ),
    ("compile-requires-grad", "Unsupported Tensor.requires_grad_() call"),
    ("dirty-not-tensor", "mark_dirty can only accept variables, but argument 0 is of type int"),
    ("grad-dtype", "attempting to assign a gradient with dtype 'double' to a tensor with grad_dtype 'Float'."),
    ("higher-order-mutation", "torch.cond's true_fn might be modifying the input!"),
    ("higher-order-alias", "torch.cond's true_fn might be aliasing the input!"),
    (
        "leaf",
        "Failed running call_method add_(*(FakeTensor(..., size=(3,), requires_grad=True), 1), **{}):\n"
        "a leaf Variable that requires grad is being used in an in-place operation.",
    ),
    (
        "out-grad",
        'Dynamo failed to run FX node with fake tensors: call_function <built-in method add>: got RuntimeError("add'
        "(): functions with out=... arguments don\\'t support automatic differentiation, but one of the arguments\")",
    ),
    ("leaf", "RuntimeError: a leaf Variable that requires grad\n    is being used in an\n    in-place operation.\n"),
    ("leaf", "[rank0]: RuntimeError: a leaf Variable that requires grad is being used in an in-place operation."),
    (
        "functionalize-overlap",
        "While executing aten.add_, functionalization encountered a tensor being mutated that has internal overlap.",
    ),
    ("saved", "modified by an inplace operation"),
    ("multi-view", "This view is the output of a function that returns multiple views"),
    ("custom-view", "This view was created inside a custom Function"),
    ("nograd-view", "A view was created in inference mode and is being modified inplace in normal mode"),
    ("out-grad", "functions with out=... arguments don't support automatic differentiation"),
    ("created-from-data", "set_sizes_contiguous is not allowed on a Tensor created from .data or .detach()."),
    ("dirty-single-output", "Functions which modify views in-place must return a single Variable"),
    ("forward-reset", "Only inplace operations can re-set the forward grad of a Tensor that already has one."),
    ("meta-argument", "Cannot inplace into non-meta tensor with meta tensor argument"),
    (
        "cudagraph-overwritten",
        "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack trace: ...",
    ),
]


@pytest.mark.parametrize(("name", "text"), OTHER_WORDINGS, ids=[name for name, _ in OTHER_WORDINGS])
def test_the_wordings_of_other_releases_and_parts_of_messages(name: str, text: str) -> None:
    match = recognise(text)
    assert match is not None
    assert match.entry.name == name
    assert "{" not in match.cause


UNRELATED = [
    "",
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.35 GiB already allocated)",
    "mat1 and mat2 shapes cannot be multiplied (4x3 and 2x5)",
    "KeyError: 'loss'",
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    "grad can be implicitly created only for scalar outputs",
    "expected scalar type Float but found Double",
    "expected scalar type Long but found Float",
    "derivative for aten::heaviside is not implemented",
    "derivative for aten::_scaled_dot_product_efficient_attention_backward is not implemented",
    "Trying to use forward AD with igamma that does not support it because it has not been implemented yet.",
    "Batching rule not implemented for aten::as_strided; the fallback path doesn't work on out= or view ops.",
    "index 5 is out of bounds for dimension 0 with size 3",
    "Error(s) in loading state_dict for Linear: size mismatch for weight: copying a param with shape",
    "DataLoader worker (pid 71) is killed by signal: Killed.",
    "Function 'ExpBackward0' returned nan values in its 0th output.",
    "backend='inductor' raised:\nAssertionError: something else",
    "Dynamo failed to run FX node with fake tensors: got RuntimeError('a and b must have same shape')",
    "leaf",
    "x.add_(1)  # modified in place",
]


@pytest.mark.parametrize("text", UNRELATED)
def test_unrelated_errors_are_left_alone(text: str) -> None:
    assert recognise(text) is None
    assert parse_version_error(text) is None


AMBIGUOUS = [
    "element 0 of tensors does not require grad and does not have a grad_fn",
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been",
    "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
    "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 0.  Target sizes:",
    "The differentiated Tensor at index 0 appears to not have been used in the graph.",
    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    "only Tensors of floating point dtype can require gradients",
    "Trying to resize storage that is not resizable",
]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_texts_that_other_programs_raise_too_are_not_certain(text: str) -> None:
    match = recognise(text)
    assert match is not None
    assert not match.entry.certain


def test_a_certain_text_wins_over_an_ambiguous_one_in_the_same_paste() -> None:
    paste = "\n".join([*AMBIGUOUS, "a leaf Variable that requires grad is being used in an in-place operation."])
    match = recognise(paste)
    assert match is not None
    assert match.entry.name == "leaf"
    certain = [entry.certain for entry in ENTRIES]
    assert certain == sorted(certain, reverse=True)


def test_the_cause_names_what_the_message_names() -> None:
    match = recognise("result type Float can't be cast to the desired output type Long")
    assert match is not None
    assert match.groups == {"result": "Float", "target": "Long"}
    assert match.cause.startswith("The result is of type Float and the target of type Long")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            MODIFIED
            + "[torch.FloatTensor [3]], which is output 0 of Exp, is at version 1; expected version 0 instead.",
            VersionError("torch.FloatTensor", (3,), 0, "Exp", 1, 0),
        ),
        (
            MODIFIED + "[torch.cuda.HalfTensor [2, 1]], which is output 1 of AsStridedBackward0, is at version 12; "
            "expected version 10 instead.",
            VersionError("torch.cuda.HalfTensor", (2, 1), 1, "AsStrided", 12, 10),
        ),
        (
            "RuntimeError: "
            + MODIFIED
            + "[torch.FloatTensor [4, 8]], which is output 0 of torch::autograd::CopySlices,\n"
            "is at version 2; expected version 1 instead.",
            VersionError("torch.FloatTensor", (4, 8), 0, "torch::autograd::CopySlices", 2, 1),
        ),
        (
            MODIFIED + "[torch.sparse.FloatTensor [3, 3]] is at version 1; expected version 0 instead.",
            VersionError("torch.sparse.FloatTensor", (3, 3), None, None, 1, 0),
        ),
        (
            MODIFIED + "[torch.FloatTensor []], which is output 0 of Mul, is at version 1; expected version 0 instead.",
            VersionError("torch.FloatTensor", (), 0, "Mul", 1, 0),
        ),
        (
            MODIFIED
            + "[torch.FloatTensor  2\n 3\n[ torch.LongTensor{2,1} ]], which is output 0 of Mul, is at version 1; "
            "expected version 0 instead.",
            VersionError("torch.FloatTensor", None, 0, "Mul", 1, 0),
        ),
    ],
    ids=["result", "suffix", "copy-slices", "sparse", "scalar", "nested"],
)
def test_the_saved_tensor_message_is_read(text: str, expected: VersionError) -> None:
    assert parse_version_error(text) == expected


def test_a_scalar_and_a_leaf_are_read_from_pytorch_itself() -> None:
    x = torch.ones((), requires_grad=True)
    y = x.exp()
    z = y * 2
    y.add_(1)
    with pytest.raises(RuntimeError) as raised:
        z.backward()
    assert parse_version_error(str(raised.value)) == VersionError("torch.FloatTensor", (), 0, "Exp", 1, 0)


def test_entries_are_well_formed() -> None:
    assert len(BY_NAME) == len(ENTRIES)
    for entry in ENTRIES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.name)
        assert entry.kind in kinds.BY_NAME, entry.name
        assert entry.code == kinds.BY_NAME[entry.kind].code
        groups = re.compile(entry.pattern).groupindex
        assert set(re.findall(r"\{(\w+)\}", entry.cause)) <= groups.keys(), entry.name
        assert entry.cause.endswith((".", "`."))
        assert entry.remedies
        assert all(remedy.endswith(".") for remedy in entry.remedies), entry.name


def test_no_remedy_hides_the_error() -> None:
    for entry in ENTRIES:
        for remedy in entry.remedies:
            assert not re.search(r"\.data\b|allow_mutation|saved_tensors_hooks|unsafe_", remedy), entry.name


def test_every_kind_that_raises_has_an_entry() -> None:
    covered = {entry.kind for entry in ENTRIES}
    # The text of "stepped" is that of "saved": only the tensor tells them apart.
    assert {kind.name for kind in kinds.KINDS if kind.code < "OUT300"} <= {*covered, "stepped"}


def test_the_catalogue_does_not_import_torch() -> None:
    check = "import sys, outplace.knowledge.errors as e; e.recognise('x'); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
