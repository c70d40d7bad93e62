"""The candidates for one bug, the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.facts.location import Place, Style, place_at
from outplace.repair.plan.kinds.leaf import leaf
from outplace.repair.plan.kinds.refused import inference, multi_view, out_arg, overlap, refused, shape_dtype
from outplace.repair.plan.kinds.saved import detached, saved
from outplace.repair.plan.kinds.silent import by_rule, silent_alias, silent_data
from outplace.repair.plan.kinds.stepped import kept_weights, stepped
from outplace.repair.syntax.files import Files


def propose(files: Files, bug: Bug, style: Style = "auto", neighbours: tuple[Bug, ...] = ()) -> Iterator[Candidate]:
    """The candidates for a bug. `neighbours` are other bugs of the file, which one edit may repair together."""
    if bug.kind == "stepped":
        yield from stepped(files, bug, neighbours)
        yield from kept_weights(files, bug)
        return
    for site in bug.writes[:1] if bug.kind not in ("saved", "silent-data") else bug.writes:
        place = place_at(files, bug, site, style)
        if place is not None:
            yield from _BY_KIND.get(bug.kind, _nothing)(place, neighbours)


def _nothing(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    yield from ()


_BY_KIND: dict[str, Callable[[Place, tuple[Bug, ...]], Iterator[Candidate]]] = {
    "saved": saved,
    "leaf": leaf,
    "leaf-view": leaf,
    "multi-view": multi_view,
    "nograd-view": refused,
    "custom-view": refused,
    "expanded": refused,
    "overlap": overlap,
    "out-arg": out_arg,
    "inference": inference,
    "shape-dtype": shape_dtype,
    "detached": detached,
    "underivable": refused,
    "silent-data": silent_data,
    "silent-alias": silent_alias,
    "silent-other": by_rule,
}
