"""What each PyTorch operation keeps for its backward, what it writes and what its output shares. No torch needed.

The table was measured by `tools/generate_op_table.py`: whole on one version of torch, and what differs on others. It is
read when the first question is asked.

    >>> op = lookup("F.relu")
    >>> op.results["0"].always
    True
    >>> effect(lookup("*"), [TENSOR, Arg.constant(2)]).saved
    {}
    >>> lookup("masked_fill_").twin.expression("x", "mask, 0")
    'x.masked_fill(mask, 0)'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple

from outplace.knowledge._table import table
from outplace.knowledge.names import AUGMENTED, asks_in_place, spellings
from outplace.knowledge.nodes import Node, by_node, describe_saved, saved_phrase
from outplace.knowledge.twins import SETITEM, Twin, augmented_twin, twin_of
from outplace.knowledge.when import ALWAYS, TENSOR, UNKNOWN, Arg, Call, When

__all__ = [
    "ALWAYS",
    "TENSOR",
    "UNKNOWN",
    "Arg",
    "Call",
    "Effect",
    "Node",
    "Op",
    "Share",
    "Twin",
    "When",
    "by_node",
    "describe_saved",
    "effect",
    "lookup",
    "names",
    "saved_phrase",
    "torch_version",
]

How = Literal["view", "multi", "same", "detached", "untracked"]


class Share(NamedTuple):
    """An output that shares memory with an argument.

    `how`: a `view`; one of several views made by one call (`multi`: must not be written); the `same` object; `detached`
    (shares memory and version, not the graph); `untracked` (shares memory alone: `.data`). `out` is "0", "1" or "*".
    """

    out: str
    of: str
    how: How
    when: When


@dataclass(frozen=True)
class Op:
    """One operation as the table knows it.

    Args:
        name: its name in the table: "mul", "mul_", "nn.functional.relu", "nn.BatchNorm2d".
        params: formal names by position; "other|dim" where overloads differ, "*operands" for all the rest.
        self_at: the position a method's own tensor has in `params` (1 for `where`).
        state: a module's parameters and buffers.
        saves: arguments (or state) that are kept, and when.
        results: outputs that are kept, by number ("*": all), and when.
        inner: tensors kept that the caller never sees, as "Node.attribute".
        shares: outputs that share memory with arguments.
        expanded: the output may have several elements at one address, which cannot be written.
        nodes: the autograd nodes it makes.
        differentiable: False where no gradient passes.
        writes: the argument it overwrites, None for out-of-place operations.
        copies: an in-place operation that keeps a copy of the old values, and when: its target may be written again.
        inplace: the name of its in-place form.
        twin: the out-of-place form of an in-place operation.
        defaults: defaults of the options that conditions speak of.
        measured: False where the table knows the name and nothing else.
        call: an example to run (see `examples.py`), None if there is none.
    """

    name: str
    params: tuple[str, ...] = ()
    self_at: int = 0
    state: tuple[str, ...] = ()
    saves: Mapping[str, When] = field(default_factory=dict)
    results: Mapping[str, When] = field(default_factory=dict)
    inner: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
    expanded: bool = False
    nodes: tuple[str, ...] = ()
    differentiable: bool = True
    writes: str | None = None
    copies: When | None = None
    inplace: str | None = None
    twin: Twin | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    measured: bool = True
    call: Mapping[str, Any] | None = None

    @property
    def is_module(self) -> bool:
        """Whether it is a module of `torch.nn`."""
        return self.name.startswith("nn.") and not self.name.startswith("nn.functional.")

    @property
    def view(self) -> Literal["view", "multi", "maybe", "no"]:
        """Whether the output is a view of an argument. "maybe": it depends on the arguments."""
        kinds = [share for share in self.shares if share.how in ("view", "multi")]
        if not kinds:
            return "maybe" if any(share.how == "same" for share in self.shares) else "no"
        if not all(share.when.always for share in kinds):
            return "maybe"
        return "multi" if any(share.how == "multi" for share in kinds) else "view"

    def bind(self, args: Sequence[Arg], keywords: Mapping[str, Arg] | None = None) -> dict[str, list[str | int]]:
        """Which argument each parameter got: positions (as the function is called) and keywords, by formal name."""
        found: dict[str, list[str | int]] = {}
        for place, arg in enumerate(args):
            if name := self._at(place, arg):
                found.setdefault(name, []).append(place)
        for keyword in keywords or {}:
            found.setdefault("input" if keyword == "self" else keyword, []).append(keyword)
        return found

    def _at(self, place: int, arg: Arg) -> str | None:
        rest = next((i for i, p in enumerate(self.params) if p.startswith("*")), None)
        if rest is not None and place >= rest:
            return self.params[rest].strip("*")
        if place >= len(self.params):
            return None
        ways = self.params[place].split("|")
        return ways[-1] if arg.tensor is False else ways[0]


class Effect(NamedTuple):
    """What one call does. Keys are positions or keywords of the call, or names of a module's state.

    Values are True (surely) or None (perhaps); what surely does not happen is left out.
    """

    saved: Mapping[str | int, bool | None]
    results: Mapping[str, bool | None]
    shares: tuple[tuple[str, str | int, How, bool | None], ...]
    """(output, argument, how, certainty)."""
    writes: str | int | None


def effect(
    op: Op,
    args: Sequence[Arg],
    keywords: Mapping[str, Arg] | None = None,
    *,
    method: bool = False,
    options: Mapping[str, Any] | None = None,
    state: Arg = TENSOR,
) -> Effect:
    """What calling `op` with these arguments saves, writes and shares.

    Args:
        op: the operation.
        args: positional arguments; with `method`, the first is the tensor itself.
        keywords: keyword arguments.
        method: called as a method, so that the first argument is the method's own tensor.
        options: settings from elsewhere (`training` and the constructor's arguments of a module).
        state: what is known of a module's parameters (frozen ones do not require grad).
    """
    arguments: dict[str | int, Arg] = dict([*enumerate(args), *(keywords or {}).items()])
    keys = _keys_of_parameters(op, args, keywords or {}, method)
    known = {name: _merged([arguments[key] for key in its_keys]) for name, its_keys in keys.items()}
    known |= dict.fromkeys(op.state, state)
    call = Call(known, {**op.defaults, **(options or {})})
    saved: dict[str | int, bool | None] = {}
    for name, when in op.saves.items():
        if name in known and (holds := when.holds(call)) is not False:
            tensors = {key: arguments.get(key, state).tensor for key in keys.get(name, [name])}
            saved |= {key: holds if is_tensor else None for key, is_tensor in tensors.items() if is_tensor is not False}
    results = {out: holds for out, when in op.results.items() if (holds := when.holds(call)) is not False}
    shares = tuple(
        (share.out, key, share.how, holds)
        for share in op.shares
        if (holds := share.when.holds(call)) is not False
        for key in keys.get(share.of, [])
    )
    writes = keys.get(op.writes, [None])[0] if op.writes else None
    return Effect(saved, results, shares, writes)


def _keys_of_parameters(
    op: Op, args: Sequence[Arg], keywords: Mapping[str, Arg], method: bool
) -> dict[str, list[str | int]]:
    """By name of the parameter: the positions and keywords of the call that it got its arguments from."""
    order = list(range(len(args)))
    if method and op.self_at:
        order = [*order[1 : op.self_at + 1], 0, *order[op.self_at + 1 :]]
    bound = op.bind([args[position] for position in order], keywords)
    return {name: [order[key] if isinstance(key, int) else key for key in keys] for name, keys in bound.items()}


def _merged(args: list[Arg]) -> Arg:
    if len(args) == 1:
        return args[0]
    grads = [arg.grad for arg in args]
    return Arg(True, True if True in grads else None if None in grads else False, "several")


def torch_version() -> str:
    """The torch version the table was measured on."""
    version: str = table()["torch"]
    return version


def names() -> list[str]:
    """Every name in the table: operations, in-place forms, modules."""
    data = table()
    return sorted({*data["ops"], *data["writes"], *data["aliases"], *data["methods"], *_inplace_names()})


@cache
def lookup(name: str, *, inplace: bool = False) -> Op | None:
    """The operation called `name`, in any of its spellings, None if the table has none.

    Takes `relu`, `torch.relu`, `F.relu`, `Tensor.relu_`, `nn.ReLU`, `*`, `+=`, `__iadd__`, `x[i] = v`, ...

    Args:
        name: the spelling; `F.relu(inplace=True)` asks for the in-place form.
        inplace: ask for the in-place form of an operation that has a flag for it.
    """
    wants_inplace = inplace or asks_in_place(name)
    for candidate in spellings(name):
        found = _entry(candidate, wants_inplace)
        if found is not None:
            if name.strip() in AUGMENTED:
                return replace(found, twin=augmented_twin(name.strip()))
            return found
    return None


def _entry(name: str, wants_inplace: bool) -> Op | None:
    data = table()
    if name in data["writes"]:
        twin = SETITEM if name == "__setitem__" else twin_of(name)
        return _op(name, data["writes"][name], writes="input", twin=twin)
    base = name
    if name not in data["ops"] and name.endswith("_") and not name.endswith("__"):
        base = _inplace_names().get(name) or data["aliases"].get(name[:-1], name[:-1])
        if base in data["ops"] and "inplace" in data["ops"][base]:
            return _inplace_form(base, name)
        return (
            Op(name, ("input",), writes="input", twin=twin_of(name), measured=False)
            if name in data["methods"]
            else None
        )
    base = data["aliases"].get(name, name) if name not in data["ops"] else name
    entry = data["ops"].get(base)
    if entry is None:
        return None
    if wants_inplace and "inplace" in entry:
        return _inplace_form(base, entry["inplace"]["name"])
    return _op(name, entry)


def _inplace_form(base: str, name: str) -> Op:
    entry = table()["ops"][base]
    form = entry["inplace"]
    shared = {key: entry[key] for key in ("params", "state", "defaults") if key in entry}
    twin = twin_of(name) if name in table()["methods"] else Twin(base, None, True, "leave inplace out")
    return _op(name, {**shared, **form}, writes="input", twin=twin)


def _op(name: str, entry: Mapping[str, Any], writes: str | None = None, twin: Twin | None = None) -> Op:
    return Op(
        name=name,
        params=tuple(entry.get("params", ())),
        self_at=entry.get("self_at", 0),
        state=tuple(entry.get("state", ())),
        saves={key: When.read(value) for key, value in entry.get("saves", {}).items()},
        results={key: When.read(value) for key, value in entry.get("results", {}).items()},
        inner=tuple(entry.get("inner", ())),
        shares=tuple(Share(str(s["out"]), s["of"], s["how"], When.read(s["when"])) for s in entry.get("shares", ())),
        expanded=entry.get("expanded", False),
        nodes=tuple(entry.get("nodes", ())),
        differentiable=entry.get("diff", True),
        writes=writes,
        copies=When.read(entry["copies"]) if "copies" in entry else None,
        inplace=entry.get("inplace", {}).get("name"),
        twin=twin,
        defaults=entry.get("defaults", {}),
        call=entry.get("call"),
    )


@cache
def _inplace_names() -> dict[str, str]:
    """In-place names that do not follow from the operation's own: `relu_` belongs to `nn.functional.relu`."""
    found = {}
    for base, entry in table()["ops"].items():
        if "inplace" in entry:
            found[entry["inplace"]["name"]] = base
    for alias, base in table()["aliases"].items():
        if "inplace" in table()["ops"].get(base, {}):
            found.setdefault(f"{alias}_", base)
    return found
