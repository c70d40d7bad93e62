"""Writes to weights that are computed from others. Such writes are lost.

`layer.weight.data.normal_()` after `weight_norm(layer)`, or `nn.init.eye_(layer.weight)` after a parametrization,
writes a temporary result, or one that the next forward replaces. Nothing is raised, and the weights keep their initial
values. Marked code passes the module of each statement that writes into an attribute.
"""

from __future__ import annotations

import ast

import torch
from torch.nn.utils import parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from outplace.knowledge.silent_rules.lost import PARAMETRIZED_WEIGHT_WRITE
from outplace.knowledge.written import attribute_of, written_by
from outplace.model import Mutation, Tensor
from outplace.runtime.locate import sites
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan


def _is_computed(module: torch.nn.Module, name: str) -> bool:
    fields = vars(module)
    if name in fields.get("_parameters", ()) or name in fields.get("_buffers", ()):
        return False
    if parametrize.is_parametrized(module, name):
        return not getattr(parametrize, "_cache_enabled", 0)  # a cached weight stays while the block lasts
    for hook in fields.get("_forward_pre_hooks", {}).values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return True
        if isinstance(hook, SpectralNorm) and hook.name == name:  # until a forward it is the parameter's own memory
            own = fields["_parameters"].get(f"{name}_orig")
            return own is not None and storage_of(own) != storage_of(fields[name])
    return False


def _tell(module: torch.nn.Module, name: str, place: Instruction) -> None:
    written, operation = _written(sites.at_instruction(place).statement)
    written = written or name
    located = sites.at_instruction(place, operation)
    if parametrize.is_parametrized(module, name):
        cause = "A parametrization computes it whenever it is read"
        instead = f"assign: `{written} = values`, which a parametrization that has a `right_inverse` takes over."
    else:
        cause = "A norm computes it anew in each forward"
        instead = f"change what it is computed from ({', '.join(_originals(module, name))})."
    mutations = (Mutation(operation or "in-place write", located.site),)
    reporting.tell(PARAMETRIZED_WEIGHT_WRITE, Tensor(written), mutations, {"made": cause, "instead": instead})


def _originals(module: torch.nn.Module, name: str) -> list[str]:
    return [var for var in vars(module)["_parameters"] if var.startswith(f"{name}_")]


def _written(statement: ast.stmt | None) -> tuple[str | None, str | None]:
    """The attribute that a statement writes, as in the source, and the operation."""
    target, operation = None, None
    if isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        target, operation = written_by(call), ast.unparse(call.func).rpartition(".")[2]
    elif isinstance(statement, ast.Assign | ast.AugAssign):
        whole = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        target, operation = whole, "__setitem__" if isinstance(whole, ast.Subscript) else ".data ="
    attribute = None if target is None else attribute_of(target)
    return None if attribute is None else ast.unparse(attribute), operation


class Detector(detector.Detector):
    """Examines the module of each statement that writes into an attribute."""

    def on_owner(self, owner: torch.nn.Module, name: str, place: Instruction) -> None:
        """A statement writes into `owner.name`. Is that weight computed from something else?"""
        if _is_computed(owner, name):
            scan.guarded(lambda: _tell(owner, name, place))
            reporting.raise_if_strict()
