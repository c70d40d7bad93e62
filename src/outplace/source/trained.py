"""Which functions somebody trains through, as far as the file itself says so: hypotheses hold only for these."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from outplace.source.frameworks import framework_behind
from outplace.source.python_model import has_unknown_base
from outplace.source.values import Class, Function

_NOT_TRAINED = re.compile(
    r"generat|decode_|predict|inference|post_?process|init|reset|load|convert|fuse|merge|deploy|reparam|quant|sample"
    r"|evaluate|validat|test|visuali|plot|export|prune|match|nms|augment|transform_(?:points|boxes)|to_|from_"
)
"""Methods that are called around training: to set weights, to evaluate, to change what is finished."""
_LOSS = re.compile(r"loss|criterion|objective|penalty|regulari[sz]", re.IGNORECASE)
_NO_MODULES = re.compile(
    r"Optimizer|Dataset|DataLoader|Transform|Augment|Metric|Sampler|Scheduler|Callback|Processor|Tracker|Matcher|Crop"
)
"""Classes that handle data, or what comes after training."""
_ASKS = re.compile(r"is_grad_enabled\(|\.requires_grad\b(?!\s*=)")
"""A file that asks whether somebody trains decides by itself which of its functions may write."""


class Trained:
    """Asks of each function of a file whether somebody may train through it."""

    def __init__(self, functions: list[tuple[Function, Class | None]]) -> None:
        self._functions = functions

    def holds(self, function: Function, owner: Class | None) -> bool:
        """Is it part of a module's forward or of a loss, by its name or by who calls it?"""
        if owner is not None:
            return self._is_method(function, owner)
        name = _name(function)
        return bool(_LOSS.search(name)) or (name in self._called and not _ASKS.search(function.module.source))

    @cached_property
    def _called(self) -> set[str]:
        """The names that trained methods call, and those that the functions of these names call."""
        called = set[str]()
        for function, owner in self._functions:
            if owner is not None and self._is_method(function, owner):
                called |= _names_called(function.node)
        waiting = set(called)
        alone = {_name(function): function for function, owner in self._functions if owner is None}
        while waiting:
            found = alone.pop(waiting.pop(), None)
            if found is not None:
                waiting |= _names_called(found.node)
                called |= waiting
        return called

    def _is_method(self, function: Function, owner: Class) -> bool:
        name = _name(function)
        framework = framework_behind(owner)
        if framework is not None and name in framework.steps | framework.entry_points:
            return True
        if _LOSS.search(name) or _LOSS.search(owner.name):
            return True
        if _NOT_TRAINED.search(name.lower()) or _NO_MODULES.search(owner.name):
            return False
        base = owner.torch_base()
        if base is not None:
            return base.startswith("torch.nn.")
        return has_unknown_base(owner) and owner.find("forward") is not None


def _name(function: Function) -> str:
    return getattr(function.node, "name", "")


def _names_called(node: ast.AST) -> set[str]:
    return {part.func.id for part in ast.walk(node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}
