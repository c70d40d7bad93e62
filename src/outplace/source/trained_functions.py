"""Which functions of a file are trained through. Only these are analysed under hypotheses."""

from __future__ import annotations

import ast
from functools import cached_property

from outplace.source.frameworks import framework_behind
from outplace.source.heuristics import handles_data, is_loss_name, is_outside_training
from outplace.source.project import Module
from outplace.source.python_model import has_unknown_base
from outplace.source.values import Class, Function


class Trained:
    """Decides for each function of a file whether it may be trained through."""

    def __init__(self, functions: list[tuple[Function, Class | None]]) -> None:
        self._functions = functions
        self._asking: dict[str, bool] = {}

    def holds(self, function: Function, owner: Class | None) -> bool:
        """Is it part of a module's forward or of a loss, by its name or by who calls it?"""
        if owner is not None:
            return self._is_method(function, owner)
        name = _name(function)
        return is_loss_name(name) or (name in self._called and not self._asks(function.module))

    def _asks(self, module: Module) -> bool:
        """A file that asks whether grad is on decides by itself which of its functions may write."""
        if module.path not in self._asking:
            self._asking[module.path] = any(map(_asks_for_grad, ast.walk(module.tree)))
        return self._asking[module.path]

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
        if is_loss_name(name) or is_loss_name(owner.name):
            return True
        if is_outside_training(name) or handles_data(owner.name):
            return False
        base = owner.torch_base()
        if base is not None:
            return base.startswith("torch.nn.")
        return has_unknown_base(owner) and owner.find("forward") is not None


def _asks_for_grad(node: ast.AST) -> bool:
    """`torch.is_grad_enabled()`, or a reading of `x.requires_grad`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        return node.attr in ("requires_grad", "is_grad_enabled")
    return isinstance(node, ast.Name) and node.id == "is_grad_enabled"


def _name(function: Function) -> str:
    return getattr(function.node, "name", "")


def _names_called(node: ast.AST) -> set[str]:
    return {part.func.id for part in ast.walk(node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}
