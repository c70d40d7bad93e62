"""Diagnoses a failed backward: every stale saved tensor of the graph, what saved it, and what wrote it since."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.by_hand import SLOPED
from outplace.knowledge.errors import Match, VersionError, parse_version_error
from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import by_node, describe_saved
from outplace.model import Diagnosis, Mutation, SavedTensor, Site, Tensor
from outplace.runtime.errors import build
from outplace.runtime.errors.remedies import fixes_for
from outplace.runtime.locate import graph, names, opaque_nodes, replays, sites
from outplace.runtime.locate.graph import Slot
from outplace.runtime.locate.graph_excerpt import Surroundings
from outplace.runtime.locate.savers import savers
from outplace.runtime.locate.sites import Located
from outplace.runtime.locate.writers import (
    AnyWrite,
    NodeWrite,
    OverwrittenSaves,
    detaching,
    looking_once,
    overwritten_saves,
)
from outplace.runtime.record import log, regions
from outplace.runtime.record.log import Backward, Step, Write
from outplace.runtime.record.overlap import written_apart
from outplace.runtime.record.storages import storage_of

_STEPS_OVER = {"embedding_renorm_"}
"""Writes to a parameter that belong to a forward and do not update it."""


def diagnose(error: BaseException, match: Match, frame: FrameType) -> list[Diagnosis]:
    """All diagnoses of a failed backward. `frame` is torch's; its arguments hold the roots and inputs."""
    if regions.compiling:  # forward and backward are traced together: the graph of the trace has no lines
        return _while_compiling(error, match, frame)
    outputs, inputs = arguments(frame)
    roots = graph.roots_of(outputs)
    needed = graph.needed_for(roots, inputs)
    return _of_graph(error, match, frame, roots, [n for n in graph.walk(roots) if needed is None or n in needed])


def _while_compiling(error: BaseException, match: Match, frame: FrameType) -> list[Diagnosis]:
    """Diagnoses a region that torch.compile refuses because its backward would fail."""
    again = replays.replay(regions.compiling[-1])
    called = log.frames_to_own_code(frame)[-1:]
    writes = log.current().writes
    before = len(writes)
    writes += [replays.with_call(write, called) for write in again.writes]
    try:
        return _of_graph(error, match, frame, again.roots(), list(graph.walk(again.roots())))
    finally:
        del writes[before:]


def _of_graph(
    error: BaseException, match: Match, frame: FrameType, roots: list[Any], nodes: list[Any]
) -> list[Diagnosis]:
    slots = [slot for node in nodes for slot in graph.stale_slots(node)]
    slots += opaque_nodes.stale_slots(nodes)
    if not slots and match.entry.kind == "detached":
        slots = [slot for node in nodes for slot in graph.detached_slots(node) if detaching(slot)]
    stack = names.own_frames(error.__traceback__, frame)
    raised = log.frames_to_own_code(frame)
    raised_at = sites.at_instruction(raised[-1]).site if raised else None
    if not slots and match.entry.name == "negative-slope":
        return [_negative_slope(error, match, frame, nodes)]
    if not slots:
        return [_without_slots(error, match, raised_at)]
    with looking_once():
        all_saves = [overwritten_saves(group) for group in _by_storage(slots)]
        around = Surroundings(roots, stack)
        found = [_diagnosis(error, group, raised_at, stack, around) for group in _by_cause(all_saves)]
    return sorted(found, key=lambda diagnosis: not _is_the_one(diagnosis, parse_version_error(str(error))))


def _is_the_one(diagnosis: Diagnosis, error: VersionError | None) -> bool:
    """Is this the bug that PyTorch stopped at? It is shown first."""
    return error is not None and diagnosis.tensor.shape == error.sizes


def arguments(frame: FrameType) -> tuple[list[Any], list[Any]]:
    """The outputs and inputs that torch's `_engine_run_backward` was called with."""
    outputs = frame.f_locals.get("t_outputs", ())
    args = frame.f_locals.get("args", ())
    inputs = args[3] if len(args) > 3 and isinstance(args[3], list | tuple) else ()
    return list(outputs), [tensor for tensor in inputs if tensor is not None]


def _by_storage(slots: list[Slot]) -> list[list[Slot]]:
    groups: dict[Any, list[Slot]] = {}
    for slot in slots:
        groups.setdefault(slot.storage if slot.storage is not None else slot.message, []).append(slot)
    return [_ends_of_checkpoints(group) for group in groups.values()]


def _ends_of_checkpoints(slots: list[Slot]) -> list[Slot]:
    """Every node of a checkpointed block leads to the argument that the block is run with. Two of them are enough."""
    inside = sorted((s for s in slots if s.saved_as == graph.CHECKPOINTED), key=lambda s: graph.number_of(s.node) or 0)
    ends = {id(slot) for slot in (*inside[:1], *inside[-1:])}
    return [slot for slot in slots if slot.saved_as != graph.CHECKPOINTED or id(slot) in ends]


# -- the diagnosis -----------------------------------------------------------------------------------------------------


def _by_cause(all_saves: list[OverwrittenSaves]) -> list[list[OverwrittenSaves]]:
    """One group for each bug: storages that the same lines wrote belong together."""
    groups: dict[Any, list[OverwrittenSaves]] = {}
    for saves in all_saves:
        sites_of = [mutation.site for mutation in _mutations([saves]) if mutation.site]
        cause: Any = frozenset((site.file, site.line) for site in sites_of) or saves.slots[0].message
        groups.setdefault((cause, _kind(saves)), []).append(saves)
    return list(groups.values())


def _kind(saves: OverwrittenSaves) -> str:
    if all(slot.error is None for slot in saves.slots):
        return "detached"
    if any(isinstance(write, Step) for write, _ in saves.writes):
        return "stepped"
    base = saves.base
    is_parameter = base is not None and base.is_leaf and (base.requires_grad or isinstance(base, torch.nn.Parameter))
    in_forward = any(isinstance(write, Write) and write.operation in _STEPS_OVER for write, _ in saves.writes)
    return "stepped" if is_parameter and saves.writes and not in_forward else "saved"


def _mutations(all_saves: list[OverwrittenSaves]) -> tuple[Mutation, ...]:
    """Each writing line once, in the order of versions: how often it wrote, and when it last wrote the first one."""
    found: dict[Any, Mutation] = {}
    for saves in all_saves:
        seen_here: dict[Any, int] = {}
        for write, version in saves.writes:
            mutation = _mutation(write, version)
            site = mutation.site
            key = (mutation.operation, (site.file, site.line, site.column) if site else None)
            seen_here[key] = seen_here.get(key, 0) + 1
            known = found.get(key, mutation)
            count = max(known.count, seen_here[key])
            moment = mutation.moment if saves is all_saves[0] else known.moment
            found[key] = replace(known, version=mutation.version, count=count, moment=moment)
    return tuple(found.values())


def _mutation(write: AnyWrite, version: int) -> Mutation:
    operation, own = _located(write)
    moment = None if isinstance(write, NodeWrite) else write.moment
    after = None if operation == "detach_" else version  # it changes no values, so no version
    if own is None:
        return Mutation(operation, None, after, moment=moment)
    if isinstance(write, NodeWrite):
        return Mutation(operation, own.site, after)
    chain = tuple(sites.at_instruction(place).site for place in reversed(write.frames[:-1]))
    return Mutation(operation, own.site, after, chain=chain if isinstance(write, Write) else (), moment=moment)


def _savers(slot: Slot) -> list[SavedTensor]:
    return savers(slot.node, slot.saved_as, slot.alias, slot.error.expected if slot.error else None)


def _diagnosis(
    error: BaseException,
    all_saves: list[OverwrittenSaves],
    raised_at: Site | None,
    stack: list[FrameType],
    around: Surroundings,
) -> Diagnosis:
    kind = _kind(all_saves[0])
    saves = all_saves[0]
    mutations = _mutations(all_saves)
    savers: dict[Any, SavedTensor] = {}
    for saver in (saver for item in all_saves for slot in item.slots for saver in _savers(slot)):
        savers.setdefault((saver.node, saver.saved_as, saver.site), saver)
    saved_by, *also = savers.values()
    tensor = _tensor(saves, kind, stack)
    wrote = [write for item in all_saves for write, _ in item.writes]
    apart = all(_apart(item) for item in all_saves)
    notes = _notes(all_saves, apart, saved_by)
    return Diagnosis(
        kind=kind,
        code=BY_NAME[kind].code,
        error=str(error),
        tensor=tensor,
        why=_why(kind, tensor, saved_by, mutations, apart),
        raised_at=raised_at,
        saved_by=saved_by,
        also_saved_by=tuple(also),
        mutations=mutations,
        fixes=fixes_for(
            kind,
            [_located(write) for write in wrote],
            apart,
            any(_through_view(item, stack) for item in all_saves),
            saved_by=(saved_by, *also),
        ),
        notes=tuple(notes),
        graph=around.of([slot.node for item in all_saves for slot in item.slots], mutations),
    )


def _located(write: AnyWrite) -> tuple[str, Located | None]:
    operation = "backward" if isinstance(write, Backward) else write.operation
    if isinstance(write, NodeWrite):
        return operation, sites.at_place(write.place)
    return operation, sites.at_instruction(write.frames[-1], operation) if write.frames else None


def _through_view(saves: OverwrittenSaves, stack: list[FrameType]) -> bool:
    """Was it written through a view of a tensor that the program also names?

    The result of a linear layer is often a view too: of a whole tensor without a name.
    """
    views = [write for write, _ in saves.writes if isinstance(write, Write) and write.region is not None]
    regions = [write.region for write in views if write.operation != "__setitem__" and write.region is not None]
    alias = saves.slots[0].alias
    base = None if alias is None else alias._base
    if base is None or not regions:
        return bool(regions)
    partly = any(math.prod(region.size) < base.numel() for region in regions)
    return partly or names.name_in_frames(base, stack, itself=True) is not None


def _tensor(saves: OverwrittenSaves, kind: str, stack: list[FrameType]) -> Tensor:
    alias, base = saves.slots[0].alias, saves.base
    name = None
    if base is not None and base.is_leaf and base.requires_grad:
        name = names.name_in_frames(base, stack)
    if name is None:
        name = _name_where_written(saves)
    if name is None and base is not None:
        name = names.name_in_frames(base, stack)
    shown = base if kind == "stepped" and base is not None else alias
    if shown is None:
        error = saves.slots[0].error
        return Tensor(name, error.sizes if error else None, None)
    return names.described(shown, name)


def _name_where_written(saves: OverwrittenSaves) -> str | None:
    """What the writing lines call it: the last of the simplest names."""
    found = []
    for write, _ in reversed(saves.writes):
        operation, located = _located(write)
        target = sites.target_node(located, operation) if located and isinstance(write, Write | NodeWrite) else None
        rank = sites.complexity_of_name(target)
        if target is not None and rank is not None:
            found.append((rank, ast.unparse(target)))
    return min(found, key=lambda entry: entry[0])[1] if found else None


def _apart(saves: OverwrittenSaves) -> bool:
    """Did no write reach the saved memory? Then only the version counter, which the whole storage shares, complains."""
    saved = [(slot.error.expected, slot.alias) for slot in saves.slots if slot.error and slot.alias is not None]
    writes = [(left, write.region) for write, left in saves.writes if isinstance(write, Write)]
    if saves.unseen or len(saved) < len(saves.slots) or len(writes) < len(saves.writes):
        return False
    base = saves.base
    if base is None or base.is_complex() or any(alias.dtype != base.dtype for _, alias in saved):
        return False  # `z.real` counts its elements differently from `z`
    return written_apart(saved, writes)


def _notes(all_saves: list[OverwrittenSaves], apart: bool, saved_by: SavedTensor) -> list[str]:
    notes = []
    if apart:
        notes.append(
            "The writes touch other elements than the saved ones, so the mathematics is fine: autograd keeps one "
            "version counter for the whole memory and cannot tell."
        )
    unseen = sum(saves.unseen for saves in all_saves)
    if unseen:
        notes.append(
            f"{unseen} further change(s) of this tensor came from where outplace cannot look: C++ code, out= inside a "
            "library, or a region compiled by torch.compile."
        )
    if saved_by.node.startswith("CompiledFunction"):  # which of its lines is not known
        notes.append(
            "It was saved inside a region compiled by torch.compile; the line shown is the call of that region."
        )
    elif saved_by.site is None:
        notes.append("The line that saved it is not known: the operation ran outside the code that outplace watches.")
    return notes


def _why(kind: str, tensor: Tensor, saved_by: SavedTensor, mutations: tuple[Mutation, ...], apart: bool) -> str:
    name = tensor.name or "this tensor"
    keeps = (
        describe_saved(saved_by.node, saved_by.saved_as)
        if saved_by.saved_as
        else f"{by_node(saved_by.node).label} keeps it"
    )
    if kind == "detached":
        return f"{keeps} for its backward, and detach_() cut that very tensor out of the graph before backward came."
    if kind == "stepped":
        return (
            f"{keeps} for its backward. The parameters were updated in place before that backward ran, so the values "
            "the gradient must be computed with are gone."
        )
    if apart:
        return (
            f"{keeps} for its backward. A later write to other elements of the same memory moved the version counter "
            f"that all of {name} shares, and autograd takes that for a change of what was kept."
        )
    overwritten = f"{keeps} for its backward. It was overwritten after that"
    return f"{overwritten}, so the gradient would be computed from the wrong values."


def _negative_slope(error: BaseException, match: Match, frame: FrameType, nodes: list[Any]) -> Diagnosis:
    """The activations whose in-place form has no backward, and the calls that chose it."""
    slopes = ("_saved_negative_slope", "_saved_alpha")
    refused = [node for node in nodes if any(getattr(node, name, 1) < 0 for name in slopes)]
    results = [result for node in refused if (result := getattr(node, "_saved_result", None)) is not None]
    memory = {storage_of(result) for result in results}
    calls = [w for w in log.current().writes if w.storage in memory and w.operation.startswith(SLOPED)]
    tensor = names.described(results[0], None) if results else Tensor(None)
    return build.diagnosis(error, match, frame, calls, tensor, "The line that called it is not known.")


def _without_slots(error: BaseException, match: Match, raised_at: Site | None) -> Diagnosis:
    """The graph shows no stale tensor. Says so, and does not guess a line."""
    version = parse_version_error(str(error))
    kind = BY_NAME[match.entry.kind]
    notes = (
        ("The tensor behind this error is hidden inside a node that torch does not let be read.",) if version else ()
    )
    return Diagnosis(
        kind=kind.name,
        code=kind.code,
        error=str(error),
        tensor=Tensor(None, version.sizes if version else None),
        why=match.cause,
        raised_at=raised_at,
        fixes=fixes_for(kind.name, [], False, error=str(error)),
        notes=notes,
    )
