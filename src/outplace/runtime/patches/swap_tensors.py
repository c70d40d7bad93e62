"""`torch.utils.swap_tensors` refuses a tensor that has weak references. outplace's references must not count.

A program that swaps tensors (`torch.__future__.set_swap_module_params_on_conversion`) must not fail because of
outplace.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.table import Patch, replaced
from outplace.runtime.record import log
from outplace.runtime.record.untracked_aliases import Weak


class _Weakrefs:
    """Replaces the module `weakref` inside `torch.utils`. It does not list outplace's references."""

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)

    @staticmethod
    def getweakrefs(tensor: Any) -> list[Any]:
        """The weak references of the user's program."""
        return [
            getweakref
            for getweakref in weakref.getweakrefs(tensor)
            if type(getweakref) is not Weak and not _is_noted(getweakref)
        ]


def _is_noted(reference: Any) -> bool:
    """Is it the reference that the records of leaves and steps hold?"""
    if any(leaf is reference for leaf, _ in tensor_writes._leaves):
        return True
    steps = (step for thread in log.all_threads() for step in thread.steps)
    distinct = {id(step.parameters): step.parameters for step in steps}
    return any(parameter is reference for parameters in distinct.values() for parameter in parameters)


def patches() -> Iterator[Patch]:
    """The patch that allows swapping tensors which outplace refers to."""
    if hasattr(torch.utils, "swap_tensors") and hasattr(torch.utils, "weakref"):
        why = "`swap_tensors` refuses a tensor that has weak references, and ours must not count."
        yield replaced(torch.utils, "weakref", lambda _: _Weakrefs(), why)
