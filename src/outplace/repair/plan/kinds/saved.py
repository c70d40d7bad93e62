"""Writes to a tensor that backward needs."""

from __future__ import annotations

from collections.abc import Iterator

from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.facts.location import Place, place_at
from outplace.repair.forms import forward_hook, table
from outplace.repair.plan.copies import copies_for_backward
from outplace.repair.plan.out_of_place import out_of_place


def saved(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Out of place if that is right, else a copy for the backward."""
    output = forward_hook.returned_output(place)
    if output is not None:
        yield place.candidate("Return a new output from the hook", "safe", output)
    if place.style == "auto":
        yield from _stacked(place, neighbours)
    copies = list(copies_for_backward(place))
    reads_back = not place.whole and any(copy.operand.startswith(f"{place.path}[") for copy in copies[:1])
    if reads_back:
        yield from copies
    rewrites = list(out_of_place(place))
    yield from (rewrite for rewrite in rewrites if rewrite.safety == "safe")
    if not reads_back:
        yield from copies
    yield from (rewrite for rewrite in rewrites if rewrite.safety != "safe")


def _stacked(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A table that a loop fills and reads as a list, with the other tables of the same loop that fail."""
    loops = place.code.loops(place.statement)[:1]
    if not loops:
        return
    lines = range(loops[0].lineno, (loops[0].end_lineno or loops[0].lineno) + 1)
    near = [(bug, site) for bug in neighbours if bug.kind == "saved" for site in bug.writes if site.line in lines]
    others = [place_at(place.files, bug, site) for bug, site in near]
    beside = [other.statement for other in others if other is not None and other.code is place.code]
    writes = [place.statement, *(item for item in beside if place.code.loops(item)[:1] == loops)]
    found = table.as_lists(place.files, place.code, writes)
    if found is not None:
        names, here = " and ".join(f"`{name}`" for name in found.names), place.code.path
        title = f"Collect the entries of {names} in a list, and stack them behind the loop"
        yield Candidate(title, "unsafe", {here: found.edits}, True, checking={here: found.checking})


def detached(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Detaches a new tensor instead of the one in the graph."""
    yield from out_of_place(place)
