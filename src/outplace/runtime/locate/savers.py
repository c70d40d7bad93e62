"""Which lines saved a tensor: the line of a node, or the lines inside a compiled region that the node stands for."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import torch

from outplace.model import SavedTensor
from outplace.runtime.locate import graph, replays, sites, writers
from outplace.runtime.locate.node_expressions import made_at


def savers(node: Any, saved_as: str, alias: torch.Tensor | None, version: int | None = None) -> list[SavedTensor]:
    """What saved this memory. A compiled region is one node, in which several lines may have saved it."""
    own = saver(node, saved_as, version)
    inside = [saver(item, name, version) for item, name in replays.savers_in_region(node, alias)]
    found = [replace(item, site=item.site or own.site, number=own.number) for item in inside]
    return list(dict.fromkeys(found)) or [own]


def saver(node: Any, saved_as: str, version: int | None = None) -> SavedTensor:
    """What this node has saved."""
    place = writers.place_of(node)
    name = "checkpoint" if saved_as == graph.CHECKPOINTED else _function(node, place) or node.name()
    name = name.removeprefix("torch::autograd::")
    site, chain = made_at(place, node.name() if name == "checkpoint" else name), replays.chain_of(node)
    saved_as = "input" if saved_as == graph.CHECKPOINTED else saved_as
    return SavedTensor(name, saved_as, version, site, graph.number_of(node), chain)


def _function(node: Any, place: Any) -> str | None:
    """The name of the user's Function that Dynamo has put a class of its own in place of."""
    statement = None if not graph.is_inlined_function(node) or (at := sites.at_place(place)) is None else at.statement
    calls = [item.func for item in ast.walk(statement or ast.Pass()) if isinstance(item, ast.Call)]
    applied = [call.value for call in calls if isinstance(call, ast.Attribute) and call.attr == "apply"]
    names = {ast.unparse(value).split(".")[-1] for value in applied}
    return f"{names.pop()}Backward" if len(names) == 1 else None
