"""Traits of operations, found by running them: shapes, memory layout, dtypes, randomness, what an in-place form does.

Each experiment casts a vote for a trait: True, False, or None where the call cannot tell. An operation has a trait of
`ALL` if some call says yes and none says no; it has a trait of `ANY` if one call says yes.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import torch
from op_table_measure import Sample, Tensors, flat, fresh, strided
from op_table_samples import Signature, extra_samples, module_samples, op_db, rebuilt, write_samples

KINDS = {"b": torch.bool, "i": torch.int64, "f": torch.float32, "c": torch.complex64}
SAMPLES, FEW = 40, 8
FAILURES = (
    RuntimeError,
    AssertionError,
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    NotImplementedError,
    AttributeError,
)

ALL = (
    "keeps_shape",  # the result has the shape of the input
    "broadcasts",  # the result has the shape that all tensors broadcast to
    "reduces",  # the result lacks the dimensions `dim`, or has none without it
    "packs",  # the result is contiguous, however the arguments lie
    "keeps_layout",  # the result lies as the arguments do
    "whole_view",  # a view of every element
    "in_order",  # a view of a contiguous tensor that is contiguous
    "gives_indices",  # the result is always a tuple of values and indices
)
ANY = (
    "turns",  # the result is not contiguous, though all arguments are
    "may_share",  # the result shares memory with an argument
    "copies",  # it shares memory with a contiguous argument, and copies another
    "random",  # another seed, another result
    "may_give_indices",  # some calls give a tuple of values and indices
)
WRITES_ALL = (
    "fills_expanded",  # it writes a tensor whose elements share one address
    "replaces",  # what it writes does not depend on what was there
    "settles",  # made a second time, it changes nothing
)
Bound = dict[str, Any]

# LAPACK trusts its arguments: other shapes and nan can write past the end of memory.
LAPACK = ("linalg.", "lu", "geqrf", "ormqr", "qr", "svd", "cholesky", "triangular_solve", "logdet", "ldl")

# Parts of names of operations whose results hold memory that nobody has written.
UNDEFINED = ("empty", "native_batch_norm", "CTCLoss", "ctc_loss")
# The database calls these through functions of its own that give something else.
WRAPPED = ("linalg.svd", "svd")

# The database calls these with tensors alone; programs mostly give them numbers.
BY_NUMBERS = {
    "clamp_": (0.2, 0.6),
    "clamp_min_": (0.2,),
    "clamp_max_": (0.6,),
    "masked_fill_": (torch.eye(2, 3) > 0, 0.0),
}


@dataclass
class Votes:
    """What the calls of one operation said."""

    yes: set[str] = field(default_factory=set)
    no: set[str] = field(default_factory=set)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    shape_only: dict[str, bool] = field(default_factory=dict)

    def cast(self, trait: str, vote: bool | None) -> None:
        """Count one vote."""
        if vote is not None:
            (self.yes if vote else self.no).add(trait)

    def traits(self, of_all: Iterable[str], of_any: Iterable[str]) -> set[str]:
        """The traits that the votes establish."""
        return {*(self.yes & set(of_all)) - self.no, *self.yes & set(of_any)}


def unseed() -> None:
    """torch's database seeds its random operations before each call; here they must stay random."""
    from torch.testing._internal import common_methods_invocations

    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def first_of(sample: Sample) -> torch.Tensor | None:
    """The tensor that a method would be called on."""
    tensors = flat(sample.tensors.get("input")) or [t for value in sample.tensors.values() for t in flat(value)]
    return tensors[0] if tensors else None


def run(call: Callable[[Tensors], Any], tensors: Tensors, seed: int = 0) -> Any:
    """Run a call quietly and from a known random state."""
    torch.manual_seed(seed)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return call(tensors)


def look(sample: Sample, bound: Bound, votes: Votes, other_values: bool = False, undefined: bool = False) -> None:
    """All votes of one float sample on the out-of-place form."""
    plain = replace(sample, tensors={name: packed(value) for name, value in sample.tensors.items()})
    tensors = fresh(plain, frozenset())
    result = run(plain.call, tensors)
    outputs = flat(result)
    if outputs:
        pair = isinstance(result, tuple) and hasattr(result, "values") and hasattr(result, "indices")
        votes.cast("gives_indices", pair)
        votes.cast("may_give_indices", pair)
    if not outputs or not outputs[0].numel() or outputs[0].layout != torch.strided:
        return
    first = first_of(plain)
    assert first is not None
    look_at_shape(outputs[0], first, plain, bound, votes)
    if "memory_format" not in sample.given:
        look_at_memory(plain, outputs[0], tensors, votes)
    with contextlib.suppress(*FAILURES):
        repeated, again = (flat(run(plain.call, fresh(plain, frozenset()), seed))[0] for seed in (0, 1))
        defined = same(repeated, outputs[0])  # what `empty` gives is neither random nor the same
        votes.cast("random", not same(again, outputs[0]) if defined and not undefined else None)
    if other_values and "random" not in votes.yes:
        look_at_values(plain, outputs[0], votes)


def others(sample: Sample) -> Iterator[Sample]:
    """The same call with other shapes: an image as input, one row less of each argument, one dimension more of each."""
    first = next((n for n, v in sample.tensors.items() if isinstance(v, torch.Tensor) and n not in sample.owned), None)
    for name, value in sample.tensors.items():
        if not isinstance(value, torch.Tensor) or name in sample.owned:
            continue
        changed = [value[:-1]] if value.ndim and value.shape[0] > 1 else []
        changed += [value[..., :-1]] if value.ndim > 1 and value.shape[-1] > 1 else []
        changed += [value.unsqueeze(0).expand(3, *value.shape).contiguous()] if name != first else []
        if name == first and value.is_floating_point():
            changed.append(torch.rand(2, 6, 5, 7))
        for other in changed:
            yield replace(sample, tensors={**sample.tensors, name: other})


def packed(value: Any) -> Any:
    """Contiguous copies of tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().contiguous() if not isinstance(value, torch.nn.Parameter) else value
    return type(value)(packed(item) if isinstance(item, torch.Tensor) else item for item in value)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal in shape, dtype and values; nan equals nan."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(torch.allclose(one, other, equal_nan=True)) if one.is_floating_point() else torch.equal(one, other)


def look_at_shape(result: torch.Tensor, first: torch.Tensor, sample: Sample, bound: Bound, votes: Votes) -> None:
    """Votes on the shape of the result."""
    kept, shared = result.shape == first.shape, storage(result) == storage(first)
    votes.cast("keeps_shape", None if kept and (not first.ndim or (shared and len(set(first.shape)) < 2)) else kept)
    shapes = [t.shape for name, value in sample.tensors.items() if name not in sample.owned for t in flat(value)]
    try:
        broadcast = result.shape == torch.broadcast_shapes(*shapes)
    except RuntimeError:
        broadcast = False
    votes.cast("broadcasts", None if broadcast and len(set(shapes)) < 2 else broadcast)
    expected = reduced(first.shape, bound.get("dim"), bool(bound.get("keepdim"))) if len(shapes) == 1 else None
    votes.cast("reduces", None if expected is None else result.shape == expected)


def reduced(shape: torch.Size, dim: Any, keepdim: bool) -> tuple[int, ...] | None:
    """The shape after a reduction."""
    if isinstance(dim, (bool, torch.Tensor)) or not shape:
        return None
    if dim in ([], ()):
        return None
    dims = range(len(shape)) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
    axes = {axis % len(shape) for axis in dims if isinstance(axis, int)}
    if keepdim:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def storage(tensor: torch.Tensor) -> int:
    """The identity of a tensor's memory."""
    return int(tensor.untyped_storage()._cdata)


def look_at_memory(sample: Sample, result: torch.Tensor, tensors: Tensors, votes: Votes) -> None:
    """Votes on sharing and on layout, for contiguous and for turned arguments."""
    source = look_at_view(result, tensors, votes)
    if source is None and telling(result):
        votes.cast("turns", not result.is_contiguous())
        for trait in ("packs", "keeps_layout"):
            votes.cast(trait, None if result.is_contiguous() else False)
    for other in (strided(sample), channels_last(sample)):
        with contextlib.suppress(*FAILURES):
            turned = fresh(other, frozenset())
            moved = [t for value in turned.values() for t in flat(value) if not t.is_contiguous()]
            outputs = flat(run(other.call, turned)) if moved else []
            if not outputs or not outputs[0].numel() or outputs[0].layout != torch.strided:
                continue
            everything = [t for value in turned.values() for t in flat(value) if t.layout == torch.strided]
            shared = any(storage(t) == storage(outputs[0]) for t in everything)
            votes.cast("copies", source is not None and not shared)
            votes.cast("may_share", shared)
            if source is None and telling(outputs[0]):
                packs = outputs[0].is_contiguous()
                votes.cast("packs", packs)
                alike = all(t.shape == outputs[0].shape for t in everything)
                votes.cast("keeps_layout", moved[0].stride() == outputs[0].stride() if alike else None)


def look_at_view(result: torch.Tensor, tensors: Tensors, votes: Votes) -> torch.Tensor | None:
    """Votes on the view that a result is of an argument, and that argument; None where it shares no memory."""
    given = [t for value in tensors.values() for t in flat(value) if t.layout == torch.strided]
    source = next((t for t in given if storage(t) == storage(result)), None)
    votes.cast("may_share", source is not None)
    if source is not None:
        whole = len(addresses(result)) == source.numel() and result.dtype == source.dtype
        votes.cast("whole_view", whole)
        votes.cast("in_order", whole and result.is_contiguous() if telling(source) and source.is_contiguous() else None)
    return source


def telling(tensor: torch.Tensor) -> bool:
    """Can its layout be told at all? It needs two dimensions of more than one element."""
    return sum(size > 1 for size in tensor.shape) > 1


def addresses(tensor: torch.Tensor) -> set[int]:
    """Where its elements lie."""
    found = {tensor.storage_offset()}
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        found = {start + step * stride for start in found for step in range(size)}
    return found


def channels_last(sample: Sample) -> Sample:
    """The same call on images that are laid out channels last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}

    def turned(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.ndim in formats and value.layout == torch.strided:
            return value.detach().contiguous(memory_format=formats[value.ndim])
        return value

    return replace(sample, tensors={n: v if n in sample.owned else turned(v) for n, v in sample.tensors.items()})


def look_at_values(sample: Sample, result: torch.Tensor, votes: Votes) -> None:
    """Which arguments give their shape or dtype alone: other values in them change nothing."""
    for name, value in sample.tensors.items():
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or name in sample.owned:
            continue
        for number in (0.0, -5.0, 0.123):
            tensors = fresh(sample, frozenset())
            tensors[name] = torch.full_like(tensors[name], number)
            with contextlib.suppress(*FAILURES):
                outputs = flat(run(sample.call, tensors))
                rest = [t for other, v in tensors.items() if other != name for t in flat(v)]
                shared = bool(outputs) and any(storage(t) == storage(outputs[0]) for t in rest)
                unread = shared and same(outputs[0], result)
                votes.shape_only[name] = votes.shape_only.get(name, True) and unread


def look_at_write(sample: Sample, votes: Votes) -> None:
    """All votes of one float sample on the in-place form."""
    write = sample.inplace
    target = fresh(sample, frozenset()).get("input")
    if write is None or not isinstance(target, torch.Tensor) or not target.numel() or not target.is_floating_point():
        return

    def after(start: torch.Tensor, seed: int = 0, others: float | None = None) -> torch.Tensor | None:
        tensors = fresh(sample, frozenset())
        for value in tensors.values() if others is not None else ():
            for tensor in flat(value):
                tensor.fill_(others)
        tensors["input"] = start
        try:
            run(write, tensors, seed)
        except FAILURES:
            return None
        return start

    once = after(target.clone())
    if once is None:
        return
    for start in (torch.rand_like(target), torch.zeros_like(target)):
        other = after(start)
        votes.cast("replaces", None if other is None or target.numel() < 2 else same(once, other))
    one, other = after(torch.zeros_like(target), others=0), after(torch.ones_like(target), others=0)
    votes.cast("replaces", None if one is None or other is None else same(one, other))
    if any(not t.is_floating_point() for value in sample.tensors.values() for t in flat(value)):
        votes.cast("replaces", False)  # an index or a mask decides what is written
    second_seed = after(target.clone(), seed=1)
    votes.cast("random", second_seed is not None and not same(once, second_seed))
    if set(sample.tensors) == {"input"} and not same(once, target):
        twice = after(once.clone(), seed=1)
        votes.cast("settles", twice is not None and same(once, twice))
    if target.ndim and target.shape[0] > 1:
        # The storage has room for every element: some operations write past the one row without a check.
        expanded = target.clone(memory_format=torch.contiguous_format)
        expanded = expanded.as_strided(target.shape, (0, *expanded.stride()[1:]))
        tensors = fresh(sample, frozenset())
        tensors["input"] = expanded
        try:
            run(write, tensors)
            votes.cast("fills_expanded", True)
        except FAILURES as error:
            votes.cast("fills_expanded", False if "single memory location" in str(error) else None)


def kind_of(tensor: torch.Tensor) -> str:
    """`b`, `i`, `f` or `c`."""
    if tensor.is_complex():
        return "c"
    return "b" if tensor.dtype == torch.bool else "f" if tensor.is_floating_point() else "i"


def database_votes(only: set[str] | None = None) -> dict[str, Votes]:
    """Votes on each operation of torch's op database."""
    found: dict[str, Votes] = {}
    database = op_db()
    unseed()
    for op in database:
        wanted = (only is None or op.name in only) and op.name not in WRAPPED
        if wanted and op.variant_test_name != "in_place" and exists(op.name):
            signature = Signature(op.name)
            votes = found.setdefault(op.name, Votes())
            main = "f" if op.supports_dtype(torch.float32, "cpu") else "i"
            for letter, dtype in KINDS.items():
                if not op.supports_dtype(dtype, "cpu"):
                    continue
                torch.manual_seed(0)
                most = SAMPLES if letter == main else FEW
                for number, drawn in enumerate(islice(op.sample_inputs("cpu", dtype, requires_grad=False), most)):
                    bound = signature.bind(drawn.input, tuple(drawn.args), dict(drawn.kwargs))
                    sample = rebuilt(op, signature, drawn, bound)
                    vary = number < 6 and (not op.name.startswith(LAPACK) or len(sample.tensors) == 1)
                    look_at_all(op.name, sample, bound, letter, votes, letter == main, vary)
    return found


def exists(name: str) -> bool:
    """Is it a function or method of torch? Some entries of the database are made of in-place methods."""
    owner: Any = torch
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part)
    last = name.rpartition(".")[2]
    return hasattr(owner, last) or hasattr(torch.Tensor, last)


def look_at_all(name: str, sample: Sample, bound: Bound, letter: str, votes: Votes, main: bool, vary: bool) -> None:
    """Every experiment with one sample; shapes and memory with one dtype alone, and also with other shapes."""
    tensors = [t for value in sample.tensors.values() for t in flat(value)]
    if not tensors or not all(t.numel() for t in tensors):
        return
    with contextlib.suppress(*FAILURES):
        look_at_kind(sample, bound, letter, votes)
        if letter == "c":
            fresh_ones = fresh(sample, frozenset())
            look_at_view(flat(run(sample.call, fresh_ones))[0], fresh_ones, votes)
    if main:
        with contextlib.suppress(*FAILURES):
            look(sample, bound, votes, vary, any(part in name for part in UNDEFINED))
        look_at_write(sample, votes)
    for other in others(sample) if main and vary else ():
        with contextlib.suppress(*FAILURES):
            look(other, bound, votes, undefined=True)


def look_at_kind(sample: Sample, bound: Bound, letter: str, votes: Votes) -> None:
    """Note the kind of the result for arguments of this kind; sharing too, since `x.int()` may be `x` itself."""
    first = first_of(sample)
    if bound.get("dtype") is not None or first is None or kind_of(first) != letter:
        return
    tensors = fresh(sample, frozenset())
    outputs = flat(run(sample.call, tensors))
    if outputs and outputs[0].layout == torch.strided:
        votes.kinds.setdefault(letter, set()).add(kind_of(outputs[0]))
        given = [t for value in tensors.values() for t in flat(value) if t.layout == torch.strided]
        votes.cast("may_share", any(storage(t) == storage(outputs[0]) for t in given))


def kinds_text(votes: Votes) -> str:
    """Result kinds for bool, int, float and complex arguments: `-` refused or unknown, `?` several."""
    seen = [votes.kinds.get(letter, set()) for letter in KINDS]
    return "".join("-" if not kinds else kinds.pop() if len(kinds) == 1 else "?" for kinds in map(set, seen))


def other_votes(only: set[str] | None = None) -> tuple[dict[str, Votes], dict[str, Votes]]:
    """Votes on what the database lacks and on modules; votes on in-place methods without an out-of-place form."""
    found: dict[str, Votes] = {}
    torch.manual_seed(0)
    samples = [(name, sample) for name, _, sample in extra_samples()]
    samples += [(f"nn.{name}", sample) for name, sample in module_samples()]
    samples.append(("type_as", Sample(lambda t: t["input"].type_as(t["other"]), pair())))
    for name, sample in samples:
        if name in ("numpy", "tolist", "iter") or (only is not None and name not in only):
            continue  # their samples make a tensor of the result
        vary = name.startswith("nn.") or name == "type_as"
        look_at_all(name, sample, {}, "f", found.setdefault(name, Votes()), True, vary)
    written: dict[str, Votes] = {}
    for name, _, sample in write_samples():
        look_at_write(sample, written.setdefault(name, Votes()))
    for name, args in BY_NUMBERS.items():
        write = getattr(torch.Tensor, name)
        sample = Sample(
            lambda t: t["input"], {"input": torch.rand(2, 3)}, inplace=lambda t, w=write, a=args: w(t["input"], *a)
        )
        look_at_write(sample, written.setdefault(name, Votes()))
    return found, written


def pair() -> Tensors:
    """Two tensors of one shape."""
    return {"input": torch.rand(2, 3), "other": torch.rand(2, 3)}


def collect(inplace_name: Callable[[str], str], only: set[str] | None = None) -> dict[str, Any]:
    """The parts of the table that speak of traits: names by trait, kinds and shape-only arguments by name."""
    votes = database_votes(only)
    others, written = other_votes(only)
    for name, other in others.items():
        votes.setdefault(name, other)
    traits: dict[str, list[str]] = {trait: [] for trait in (*ALL, *ANY, *WRITES_ALL)}
    for name, mine in votes.items():
        for trait in mine.traits(ALL, ANY):
            traits[trait].append(name)
        for trait in mine.traits(WRITES_ALL, ()):
            traits[trait].append(inplace_name(name))
    for name, mine in written.items():
        for trait in mine.traits(WRITES_ALL, ("random",)):
            traits[trait].append(name)
    kinds = {name: text for name, mine in votes.items() if (text := kinds_text(mine)) != "----"}
    unread = {name: [n for n, unread in mine.shape_only.items() if unread] for name, mine in votes.items()}
    return {
        "traits": {trait: sorted(set(names)) for trait, names in traits.items()},
        "kinds": kinds,
        "shape_only": {name: names for name, names in unread.items() if names},
    }
