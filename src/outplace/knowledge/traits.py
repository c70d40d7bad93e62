"""Properties of operations: shapes, memory, dtypes, randomness, what a write leaves. No torch needed.

The answers were measured by `tools/generate_op_table.py`; `tools/op_table_traits.py` says what each trait means.

    >>> has("F.relu", "keeps_shape"), has("sum", "keeps_shape")
    (True, False)
    >>> has("clamp_", "settles"), has("mul_", "settles")
    (True, False)
    >>> result_kind("argmax", "float"), result_kind("div", "int")
    ('int', None)
"""

from __future__ import annotations

from functools import cache

from outplace.knowledge._table import table
from outplace.knowledge.by_hand import ARRAYS_OF_TENSORS, SAMPLERS, SHARED_TENSOR_NAMES, TRAITS
from outplace.knowledge.names import spellings
from outplace.knowledge.ops import lookup

KINDS = ("bool", "int", "float", "complex")
_LETTERS = {kind[0]: kind for kind in KINDS}
_JOINING = frozenset(("CatBackward0", "StackBackward0"))
_ONE_TENSOR = frozenset(("keeps_shape", "broadcasts", "reduces"))
_NO_TRAITS: frozenset[str] = frozenset()


def has(name: str, trait: str) -> bool:
    """Has the operation, in any spelling, this trait?"""
    return trait in traits_of(name)


@cache
def method_has(name: str, trait: str) -> bool:
    """Has a method of tensors, or a function of torch itself, this trait? `self.dropout` is neither."""
    plain = table()["aliases"].get(name, name)
    return any(trait in _by_name().get(item, ()) for item in (name, plain))


@cache
def without_graph(name: str) -> bool:
    """Does a method or attribute give nothing that backward could go through: `item`, `argmax`, `shape`?"""
    if name in ARRAYS_OF_TENSORS or method_has(name, "plain_method") or method_has(name, "plain_attribute"):
        return True
    op = lookup(name) if name in table()["ops"] else None
    detached = op is not None and any(share.how in ("detached", "untracked") for share in op.shares)
    return detached or (op is not None and not op.differentiable)


@cache
def reads_nothing(name: str) -> bool:
    """Does a method or attribute of this name not ask for the values of the tensor: `shape`, `grad`, `zero_`?"""
    about = method_has(name, "plain_method") and name not in ("item", "tolist", "is_nonzero")
    return about or name == "grad" or method_has(name, "plain_attribute") or method_has(name, "replaces")


@cache
def draws(name: str) -> bool:
    """Does a function or method of this name draw at random?"""
    return has(name, "random") or name in SAMPLERS


@cache
def traits_of(name: str) -> frozenset[str]:
    """The traits of an operation. An in-place form also has those of its out-of-place form."""
    by_name = _by_name()
    if name in by_name:
        found = by_name[name]
    else:
        found = next((by_name[candidate] for candidate in _candidates(name) if candidate in by_name), _NO_TRAITS)
    if "(" in name:
        found |= traits_of(name.partition("(")[0])
    elif name.endswith("_") and not name.startswith("__"):
        found |= traits_of(name[:-1])
    return found


@cache
def only_reshapes(name: str) -> bool:
    """Is it an in-place method that writes no element, as `t_` and `squeeze_`?"""
    plain = lookup(name[:-1]) if name.endswith("_") else None
    return plain is not None and any(share.when.always for share in plain.shares)


@cache
def idle_in_evaluation(name: str) -> bool:
    """Does it return its very input unless it trains, as dropout does?"""
    op = lookup(name)
    return op is not None and any(share.how == "same" and share.when.option == "training" for share in op.shares)


@cache
def is_of_tensors(name: str) -> bool:
    """Does asking an object for this attribute or method take it for a tensor: `x.reshape`, `x.add_`?"""
    return method_has(name, "only_of_tensors") or name in SHARED_TENSOR_NAMES or name in table()["methods"]


@cache
def joins(name: str) -> bool:
    """Does it make one tensor of several: `cat`, `stack`, `hstack`?"""
    op = lookup(f"torch.{name}")
    return op is not None and not _JOINING.isdisjoint(op.nodes)


@cache
def makes_tensor(name: str) -> bool:
    """Does a function of torch, or a method of this name, make one tensor, of floats if its input is of floats?"""
    if has(name, "may_share") or always_kind(name) is not None:
        return False  # a conversion, or indices
    return joins(name) or factory_kind(name) == "float" or not _ONE_TENSOR.isdisjoint(traits_of(name))


@cache
def makes_integers(name: str) -> bool:
    """Does a function of torch, or a method of this name, make integers, or what the program lists as such?"""
    return always_kind(name) == "int" or factory_kind(name) == "int" or has(name, "from_data") or name == "arange"


@cache
def having(trait: str) -> frozenset[str]:
    """The last parts of the names of all operations with this trait, in every spelling: `relu`, `ReLU`, `clip_`."""
    aliases = table()["aliases"].items()
    names = {*_listed(trait)}
    names |= {alias for alias, name in aliases if name in names}
    names |= {f"{alias}_" for alias, name in aliases if f"{name}_" in names}
    return frozenset(name.partition("(")[0].rpartition(".")[2] for name in names)


@cache
def result_kind(name: str, kind: str) -> str | None:
    """The kind of the result for arguments of one kind; None where it depends on more, or is not known."""
    kinds = table()["kinds"]
    letters = next((kinds[candidate] for candidate in _candidates(name.rstrip("_")) if candidate in kinds), "----")
    return _LETTERS.get(letters[KINDS.index(kind)])


@cache
def always_kind(name: str) -> str | None:
    """The kind that every result has, whatever the arguments are: `argmax` gives integers."""
    found = {result_kind(name, kind) for kind in KINDS} - {None}
    return found.pop() if len(found) == 1 and result_kind(name, "float") not in (None, "float") else None


@cache
def shape_only(name: str) -> tuple[str, ...]:
    """The arguments of which only shape or dtype is read: `other` of `view_as`."""
    unread = table()["shape_only"]
    return tuple(next((unread[candidate] for candidate in _candidates(name) if candidate in unread), ()))


@cache
def inplace_position(name: str) -> int | None:
    """Where `inplace` stands among the positional arguments of a function, or of a module's constructor."""
    positions = table()["inplace_at"]
    return next((positions[candidate] for candidate in _candidates(name) if candidate in positions), None)


@cache
def factory_kind(name: str) -> str | None:
    """The kind of what a factory of torch makes by itself: `rand` floats, `randint` integers."""
    return _LETTERS.get(table()["factories"].get(name, ""))


def is_factory(name: str) -> bool:
    """Is it a function of torch that makes a tensor of sizes, numbers or data?"""
    return name in table()["factories"]


def _candidates(name: str) -> list[str]:
    """The names of the table that a spelling can stand for."""
    aliases = table()["aliases"]
    found = [*spellings(name), f"nn.init.{name}"]
    found += [aliases[candidate] for candidate in found if candidate in aliases]
    return [*found, *(f"{aliases[candidate[:-1]]}_" for candidate in found if candidate[:-1] in aliases)]


def _listed(trait: str) -> list[str]:
    if trait == "expands":
        return [name for name, entry in table()["ops"].items() if entry.get("expanded")]
    measured: list[str] = table()["traits"].get(trait, [])
    return [*measured, *TRAITS.get(trait, ())]


@cache
def _by_name() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for trait in {*table()["traits"], *TRAITS, "expands"}:
        for name in _listed(trait):
            found.setdefault(name, set()).add(trait)
    return {name: frozenset(traits) for name, traits in found.items()}
