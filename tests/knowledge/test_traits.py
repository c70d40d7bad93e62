"""Traits of operations against the installed torch: fresh calls, not those that the table was measured with."""

from __future__ import annotations

import pytest

from outplace.knowledge import ops, traits
from outplace.knowledge._table import table
from outplace.knowledge.by_hand import TRAITS
from outplace.knowledge.traits import has, method_has, result_kind

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy", reason="torch's op database needs numpy")
F, nn = torch.nn.functional, torch.nn

SAME_TORCH = torch.__version__.partition("+")[0] == ops.torch_version()
measured_here = pytest.mark.skipif(
    not SAME_TORCH, reason=f"the table was measured on torch {ops.torch_version()}, this is {torch.__version__}"
)
MASK = torch.tensor([[True, False, True, False], [False, True, False, True], [True, True, False, False]])
ROWS = torch.tensor([0, 2])
CALLS = {
    "relu": torch.relu,
    "exp": torch.exp,
    "mul": lambda x: x * 2,
    "add": lambda x: x + x,
    "clamp": lambda x: x.clamp(-1, 1),
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "softmax": lambda x: x.softmax(0),
    "cumsum": lambda x: x.cumsum(0),
    "nn.functional.layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "nn.functional.gelu": F.gelu,
    "clone": torch.clone,
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "sort": lambda x: x.sort(0).values,
    "index_select": lambda x: x.index_select(0, ROWS),
    "index_add": lambda x: x.index_add(0, ROWS, x[:2]),
    "gather": lambda x: x.gather(0, (x[:2] > 9).long()),
    "sum": lambda x: x.sum(0),
    "matmul": lambda x: x @ x.T,
    "nn.functional.linear": lambda x: F.linear(x, torch.rand(5, x.shape[1])),
    "cat": lambda x: torch.cat([x, x]),
    "tril": torch.tril,
}


def call(name, x):
    torch.manual_seed(0)
    return CALLS[name](x)


@pytest.mark.parametrize("name", CALLS)
def test_shape_and_layout(name):
    torch.manual_seed(1)
    flat, turned = torch.randn(3, 4), torch.randn(4, 3).t()
    if has(name, "keeps_shape"):
        assert call(name, flat).shape == flat.shape
        assert call(name, flat[:, :2]).shape == (3, 2)
    if has(name, "packs"):
        assert call(name, flat).is_contiguous()
        assert call(name, turned).is_contiguous()
    if has(name, "keeps_layout"):
        assert call(name, flat).is_contiguous()
        assert call(name, turned).stride() == turned.stride()
    assert has(name, "turns") or call(name, flat).is_contiguous()
    assert not (has(name, "packs") and has(name, "keeps_layout"))


TENSORS = {
    "bool": torch.tensor([True, False, True]),
    "int": torch.tensor([1, 2, 3]),
    "float": torch.tensor([0.1, 0.2, 0.3]),
    "complex": torch.tensor([1 + 1j, 2.0, 3.0]),
}
KIND_CALLS = (
    "add mul sum prod abs neg sqrt exp sigmoid argmax isnan logical_not cumsum floor clone mean true_divide bool long"
)


@pytest.mark.parametrize("name", KIND_CALLS.split())
@pytest.mark.parametrize("kind", TENSORS)
def test_kinds(name, kind):
    x = TENSORS[kind]
    function = getattr(torch.Tensor, name)
    try:
        made = (
            function(x, x)
            if name in ("add", "mul", "true_divide")
            else function(x, 0)
            if name == "cumsum"
            else function(x)
        )
    except (RuntimeError, TypeError):  # this torch refuses it
        assert result_kind(name, kind) is None
        return
    letter = "complex" if made.is_complex() else "bool" if made.dtype == torch.bool else "float"
    letter = "int" if not made.is_floating_point() and letter == "float" else letter
    assert result_kind(name, kind) in (None, letter)


@pytest.mark.parametrize(
    "name", ["relu_", "clamp_", "abs_", "floor_", "tril_", "mul_", "exp_", "neg_", "sub_", "cumsum_"]
)
def test_what_settles(name):
    args = {"clamp_": (-0.5, 0.5), "mul_": (2,), "sub_": (1,), "cumsum_": (0,)}.get(name, ())
    once = getattr(torch.linspace(-2.2, 2.2, 12).reshape(3, 4), name)(*args)
    twice = getattr(once.clone(), name)(*args)
    assert has(name, "settles") is torch.equal(once, twice)


@pytest.mark.parametrize(
    "name", ["zero_", "fill_", "copy_", "normal_", "uniform_", "random_", "exponential_", "bernoulli_", "add_", "tril_"]
)
def test_what_replaces(name):
    args = {"fill_": (2.0,), "copy_": (torch.rand(3, 4),), "add_": (1,)}.get(name, ())
    made = []
    for start in (torch.zeros(3, 4), torch.ones(3, 4)):
        torch.manual_seed(0)
        made.append(getattr(start, name)(*args))
    assert has(name, "replaces") is torch.equal(*made)


@pytest.mark.parametrize(
    "name", ["zero_", "fill_", "tril_", "masked_fill_", "add_", "mul_", "copy_", "exp_", "cumsum_", "t_", "squeeze_"]
)
def test_what_writes_expanded_memory(name):
    args = {"fill_": (2.0,), "masked_fill_": (MASK, 0.0), "copy_": (torch.rand(3, 4),), "cumsum_": (0,)}
    given = args.get(name, (2.0,) if name in ("add_", "mul_") else ())
    try:
        getattr(torch.zeros(1, 4).expand(3, 4), name)(*given)
        written = True
    except RuntimeError:
        written = False
    assert (has(name, "fills_expanded") or traits.only_reshapes(name)) is written


@pytest.mark.parametrize(
    "name", ["rand", "randn", "randint", "randperm", "zeros", "eye", "arange", "bernoulli", "dropout"]
)
def test_what_is_random(name):
    calls = {
        "randint": lambda: torch.randint(100, (9,)),
        "bernoulli": lambda: torch.bernoulli(torch.full((64,), 0.5)),
        "dropout": lambda: F.dropout(torch.ones(64)),
    }
    made = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        made.append(calls.get(name, lambda: getattr(torch, name)(9))())
    assert traits.draws(name) is not torch.equal(*made)


@pytest.mark.parametrize("name", sorted(traits.having("may_share")))
def test_what_may_share_memory_is_a_name_of_torch(name):
    given = {one.rpartition(".")[2] for one in TRAITS["may_share"]}
    owners = (torch.Tensor, torch, F, nn, torch.linalg)
    assert name in given or name in ("__getitem__", "slice") or any(hasattr(owner, name) for owner in owners)


@pytest.mark.parametrize(
    ("name", "shares"),
    [("view", True), ("reshape", True), ("float", True), ("contiguous", True), ("clone", False), ("exp", False),
     ("double", True), ("int", True), ("as_tensor", True), ("tensor", False), ("cat", False), ("moveaxis", True)],
)  # fmt: skip
def test_what_may_share_memory(name, shares):
    assert method_has(name, "may_share") is shares


def test_a_module_of_the_same_name_is_no_method():
    assert has("nn.Dropout", "may_share")
    assert has("F.dropout", "may_share")
    assert not method_has("dropout", "may_share")


@measured_here
def test_positions_of_the_flag():
    x = torch.tensor([-1.0])
    assert F.leaky_relu(x, 0.1, True) is x
    assert traits.inplace_position("leaky_relu") == 2
    assert nn.Hardtanh(-1.0, 1.0, True).inplace
    assert traits.inplace_position("Hardtanh") == 2


@measured_here
def test_measuring_again_gives_the_shipped_traits(op_tools):
    generate, _, _ = op_tools
    chosen = {"mul", "masked_fill", "sum", "sort", "reshape", "view_as", "tril", "bernoulli", "nn.ReLU", "nn.Flatten"}
    made = generate.op_table_traits.collect(generate.inplace_name, chosen)
    for trait, names in made["traits"].items():
        shipped = set(table()["traits"][trait])
        assert {n for n in names if n in chosen} == {n for n in shipped if n in chosen}, trait
    assert made["kinds"] == {name: kinds for name, kinds in table()["kinds"].items() if name in chosen}


@measured_here
def test_names_are_those_of_this_torch(op_tools):
    generate, _, _ = op_tools
    names = generate.op_table_names
    assert names.inplace_positions() == table()["inplace_at"]
    assert names.factories() == table()["factories"]
    for trait, made in (("takes_array", names.array_takers()), ("plain_method", names.plain_methods())):
        assert sorted(made) == table()["traits"][trait]
