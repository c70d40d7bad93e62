"""The pages: every kind has one, it has all its sections, and its code does what it says."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
import torch.nn.functional as F

from outplace.knowledge import kinds
from outplace.knowledge.errors import recognise
from outplace.knowledge.kind import Kind, SilentRule

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
SECTIONS = ["What it finds", "Why it is wrong", "When it is fine", "Before", "After"]
FURTHER = {"Notes", "Rules of this family"}
ALL = pytest.mark.parametrize("kind", kinds.KINDS, ids=[kind.code for kind in kinds.KINDS])


def sections(kind: Kind) -> dict[str, str]:
    parts = re.split(r"(?m)^## (.+)\n", kinds.page(kind))
    assert parts[0].strip() == f"# {kind.code} {kind.name}"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# The last line of a program, with what it prints: `print(y)  # 2.0, should be 1.0`.
PRINTED = re.compile(r"^print\((.+)\)  # (?:(?P<got>.+), should be |should be )?(.+)\n\Z", re.MULTILINE)


def run(kind: Kind, section: str) -> dict[str, object]:
    """Runs a section's code as a program of its own.

    Returns its names, and what its last line prints (`got`), is said to print (`shown`) and should print (`want`).
    """
    (source,) = re.findall(r"(?s)```python\n(.*?)```", sections(kind)[section])
    assert "import torch" in source
    if "fully_shard(" in source and not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("this FSDP needs a GPU")
    source = PRINTED.sub(lambda last: f"got, shown, want = {last[1]}, {last['got']}, {last[3]}\n", source)
    namespace: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, f"<{kind.code} {section}>", "exec"), namespace)
    return namespace


@ALL
def test_the_page_has_its_sections(kind: Kind) -> None:
    found = sections(kind)
    last = "Fix safety" if isinstance(kind, SilentRule) else "Remedies"
    assert [name for name in found if name not in FURTHER] == [*SECTIONS, last]
    assert ("Rules of this family" in found) == bool(kinds.members(kind))
    assert all(text.strip() for text in found.values())


@ALL
def test_before_goes_wrong(kind: Kind) -> None:
    if kind.code >= "OUT300":
        names = run(kind, "Before")
        assert names["got"] != names["want"]
        assert names.get("shown") in (None, names["got"])
        return
    with pytest.raises(Exception) as raised:
        run(kind, "Before")
    if kind.name == "compiled" and TORCH < (2, 8):
        pytest.skip("the message does not name the reason up to 2.5 at least")
    match = recognise(str(raised.value))
    assert match is not None
    # An update of parameters is told from other writes by what wrote, not by the text.
    assert match.entry.kind == ("saved" if kind.name == "stepped" else kind.name)


@ALL
def test_after_is_right(kind: Kind) -> None:
    names = run(kind, "After")
    assert names.get("got") == names.get("want")


def test_the_pages_advise_nothing_that_hides_the_error() -> None:
    for kind in kinds.KINDS:
        found = sections(kind)
        advice = found.get("Remedies") or found["After"] + found["Fix safety"]
        assert not re.search(r"allow_mutation|saved_tensors_hooks|(?<!utils)\.data\b", advice), kind.code


INDEX = torch.tensor([0, 1, 2, 3])
FLOOR = torch.full((4, 4), 0.5)
KEEPS_RESULT = {
    **{
        name: getattr(torch, name)
        for name in ("exp", "sigmoid", "tanh", "relu", "sqrt", "rsqrt", "reciprocal", "expm1")
    },
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
}
KEEPS_INPUT = {
    **{name: getattr(torch, name) for name in ("log", "sin", "cos", "abs", "var")},
    **{name: getattr(F, name) for name in ("gelu", "silu", "elu", "leaky_relu", "softplus")},
    "x ** 2": lambda x: x**2,
    "clamp": lambda x: x.clamp(0, 1),
    "a * b": lambda x: x * torch.ones(4, 4, requires_grad=True),
    "a @ b": lambda x: x @ torch.ones(4, 4, requires_grad=True),
    "a / b": lambda x: x / torch.ones(4, 4, requires_grad=True),
    "linear": lambda x: F.linear(x, torch.ones(4, 4, requires_grad=True)),
    "conv": lambda x: F.conv1d(x[None], torch.ones(2, 4, 2)),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "max_pool": lambda x: F.max_pool1d(x[None], 2),
    "avg_pool": lambda x: F.avg_pool1d(x[None], 2),
    "mse_loss": lambda x: F.mse_loss(x, FLOOR),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, FLOOR),
    "gather": lambda x: x.gather(0, INDEX[None]),
}
KEEPS_BOTH = {
    "norm": torch.norm,
    "std": torch.std,
    "prod": torch.prod,
    "max()": torch.max,
    "cumprod": lambda x: x.cumprod(0),
    "2 ** x": lambda x: 2**x,
}
KEEPS_NEITHER = {
    **{name: getattr(torch, name) for name in ("neg", "sum", "mean", "clone")},
    "add": lambda x: x + x,
    "sub": lambda x: x - 1,
    "x * 2": lambda x: x * 2,
    "x / 2": lambda x: x / 2,
    "a * frozen": lambda x: x * FLOOR,
    "linear, frozen": lambda x: F.linear(x, FLOOR),
    "cumsum": lambda x: x.cumsum(0),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "pad": lambda x: F.pad(x, (1, 1)),
    "interpolate": lambda x: F.interpolate(x[None], 8),
    "dropout": F.dropout,
    "where": lambda x: torch.where(FLOOR > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(FLOOR > 0, 0.0),
    "index_select": lambda x: x.index_select(0, INDEX),
    "x[idx]": lambda x: x[INDEX],
    "embedding": lambda x: F.embedding(INDEX, x),
    "cross_entropy": lambda x: F.cross_entropy(x, INDEX),
}
KEPT = [
    (name, op, keeps_input, keeps_result)
    for ops, keeps_input, keeps_result in (
        (KEEPS_RESULT, False, True),
        (KEEPS_INPUT, True, False),
        (KEEPS_BOTH, True, True),
        (KEEPS_NEITHER, False, False),
    )
    for name, op in ops.items()
]


@pytest.mark.parametrize(("name", "op", "keeps_input", "keeps_result"), KEPT, ids=[row[0] for row in KEPT])
def test_the_table_of_what_operations_keep(name: str, op: object, keeps_input: bool, keeps_result: bool) -> None:
    for write_result, kept in ((False, keeps_input), (True, keeps_result)):
        x = (torch.rand(4, 4, requires_grad=True) + 0.1) * 1
        y = op(x)  # type: ignore[operator]
        z = y.sum()
        with torch.no_grad():
            (y if write_result else x).add_(1)
        if kept:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.backward()
        else:
            z.backward()


def test_the_table_names_what_was_tested() -> None:
    page = kinds.page(kinds.BY_NAME["saved"])
    for name, *_ in KEPT:
        assert name.split(",")[0].replace("a * frozen", "a * b") in page, name
