"""What is said to lie in one piece and in order, against how torch lays it out."""

import warnings
from itertools import islice

import pytest

from outplace.knowledge._table import table
from outplace.knowledge.ops import lookup
from outplace.source.graph import Storage
from outplace.source.torch_model import layouts
from outplace.source.values import Const, Tensor

torch = pytest.importorskip("torch")
pytest.importorskip("numpy", reason="torch's op database needs numpy")

SAMPLES = 4
FORMATS = (
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "chalf",
    "cfloat",
    "cdouble",
)
"""Their samples ask for other memory formats, which is noticed at the call."""


@pytest.fixture(scope="module")
def calls(sampled_ops):
    """Of each operation: calls whose tensors lie in order, with what they give in memory of its own."""
    return [(op, list(_ordered_calls(op))) for op in sampled_ops]


def _ordered_calls(op):
    dtype = next((one for one in (torch.float32, torch.int64, torch.bool) if op.supports_dtype(one, "cpu")), None)
    if dtype is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES):
            given = _tensors([sample.input, *sample.args, *sample.kwargs.values()])
            if all(one.layout == torch.strided and one.is_contiguous() for one in given):
                yield given, _own(op(sample.input, *sample.args, **sample.kwargs), given)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for one in values for tensor in _tensors(one)]


def _own(made, given):
    taken = {tensor.untyped_storage().data_ptr() for tensor in given}
    made = [tensor for tensor in _tensors(made) if tensor.layout == torch.strided and tensor.numel()]
    return [tensor for tensor in made if tensor.untyped_storage().data_ptr() not in taken]


def in_order(*ranks):
    made = []
    for rank in ranks:
        tensor = Tensor(Storage())
        tensor.packed, tensor.shape = True, (None,) * rank
        made.append(tensor)
    return made


def test_results_of_what_lies_in_order(calls):
    wrong, asked = [], 0
    for op, made in calls:
        name = lookup(op.name).name
        for given, results in made:
            if layouts.of_result(name, in_order(*(tensor.dim() for tensor in given))) and name not in FORMATS:
                asked += bool(results)
                wrong += [(name, tensor.stride()) for tensor in results if not tensor.is_contiguous()]
    assert wrong == []
    assert asked > 500


@pytest.mark.parametrize("turned", [False, True])
def test_results_that_always_lie_in_order(turned):
    def given(*shape):
        return torch.rand(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2) if turned else torch.rand(shape)

    rows = torch.tensor([[0, 2], [1, 1]])
    made = {
        "nn.functional.linear": torch.nn.functional.linear(given(2, 3, 4), given(5, 4)),
        "nn.Linear": torch.nn.Linear(4, 5)(given(2, 3, 4)),
        "nn.functional.embedding": torch.nn.functional.embedding(rows, given(3, 4)),
        "nn.Embedding": torch.nn.Embedding(3, 4)(rows.t() if turned else rows),
        "nn.functional.layer_norm": torch.nn.functional.layer_norm(given(2, 3, 4), (4,)),
        "nn.LayerNorm": torch.nn.LayerNorm(4)(given(2, 3, 4)),
        "nn.functional.one_hot": torch.nn.functional.one_hot(rows.t() if turned else rows),
        "bmm": torch.bmm(given(2, 3, 4), given(2, 4, 5)),
        "mm": torch.mm(given(3, 4), given(4, 5)),
        "addmm": torch.addmm(given(3, 5), given(3, 4), given(4, 5)),
        "topk": torch.topk(given(3, 4), 2).indices,
    }
    assert all(layouts.of_result(name, [Tensor(Storage())]) for name in made)
    assert [name for name, tensor in made.items() if not tensor.is_contiguous()] == []


@pytest.mark.parametrize("left", [1, 2, 3, 4])
@pytest.mark.parametrize("right", [1, 2, 3, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_products(left, right, turned):
    first, second = torch.rand((2, 2, 3, 4)[-left:]), torch.rand((2, 2, 4, 5)[-right:] if right > 1 else (4,))
    if turned and left > 1:
        first = first.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layouts.of_result("matmul", in_order(left, right)):
        assert (first @ second).is_contiguous()


@pytest.mark.parametrize("name", table()["traits"]["copies"])
def test_what_copies_nothing_of_what_lies_in_order(name):
    tensor = torch.rand(2, 3, 4)
    calls = {
        "reshape": lambda: tensor.reshape(6, 4),
        "reshape_as": lambda: tensor.reshape_as(torch.rand(6, 4)),
        "nn.Flatten": lambda: torch.nn.Flatten()(tensor),
    }
    made = calls[name]() if name in calls else getattr(tensor, name)()
    assert made.data_ptr() == tensor.data_ptr()
    assert made.is_contiguous()


@pytest.mark.parametrize("old", [(4, 6), (6, 4, 2), (1, 12), (8, 1, 3)])
def test_what_only_splits_is_a_view_however_it_lies(old):
    size = torch.Size(old).numel()
    shapes = [(a, b, size // a // b) for a in range(1, size + 1) for b in range(1, size + 1) if size % (a * b) == 0]
    apart = torch.zeros(*(2 * length + 1 for length in old))[tuple(slice(1, 2 * length, 2) for length in old)]
    for shape in [*shapes, *((*shape, 1) for shape in shapes)]:
        if layouts.only_splits(old, shape):
            assert apart.reshape(shape).data_ptr() == apart.data_ptr()
    assert any(layouts.only_splits(old, shape) for shape in shapes)
    joined = (size, 1, 1)
    assert layouts.only_splits(old, joined) is (old.count(1) == len(old) - 1)


PRODUCTS = {
    "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "bhij,bhjd->bhid": ((2, 3, 4, 5), (2, 3, 5, 6)),
    "bhij,hg->bgij": ((2, 3, 4, 5), (3, 6)),
    "nqhd,nkhd->nhqk": ((2, 3, 4, 5), (2, 6, 4, 5)),
    "nhqk,nkhd->nqhd": ((2, 4, 3, 6), (2, 6, 4, 5)),
    "bij,jk->bik": ((2, 3, 4), (4, 5)),
    "ij,bjk->bik": ((2, 3), (4, 3, 5)),
    "bij,bj->bij": ((2, 3, 4), (2, 4)),
    "i,j->ij": ((3,), (4,)),
}


@pytest.mark.parametrize("pattern", PRODUCTS)
def test_einsum_turns_its_product(pattern):
    first, second = PRODUCTS[pattern]
    turned = not torch.einsum(pattern, torch.rand(first), torch.rand(second)).is_contiguous()
    assert layouts.is_turned_product("einsum", [Const(pattern)]) == turned
