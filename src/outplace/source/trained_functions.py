"""Which functions of a file are trained through. Only these are analysed under hypotheses."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from functools import cached_property

from outplace.knowledge.syntax_trees import text_of, walk
from outplace.knowledge.traits import method_has
from outplace.source.annotations import says_tensor
from outplace.source.class_bases import framework_behind, has_unknown_base
from outplace.source.heuristics import (
    handles_data,
    hands_on_optimizers,
    is_file_of_data,
    is_file_of_optimizers,
    is_loss_name,
    is_outside_training,
    is_written_by_name,
    never_trained,
)
from outplace.source.project import Module
from outplace.source.values import Class, Function

Functions = list[tuple[Function, Class | None]]
"""Functions, and the class of each method."""


def each_once(functions: Functions) -> Functions:
    """The functions without those that are of one text: one function may make many others."""
    return list({(function.node, owner): (function, owner) for function, owner in functions}.values())


@functools.lru_cache(maxsize=1)
def used_without_grad(module: Module) -> set[str]:
    """The names that blocks and functions under `no_grad` or `inference_mode` use."""
    found = set[str]()
    for node in walk(module.tree) if _MODES.search(module.source) else ():
        modes = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
        modes += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        if any(text_of(mode).endswith(("no_grad()", "inference_mode()")) for mode in modes):
            found |= {part.id for part in walk(node) if isinstance(part, ast.Name)}
            found |= {part.attr for part in walk(node) if isinstance(part, ast.Attribute)}
    return found


_MODES = re.compile("no_grad|inference_mode")


class Trained:
    """Decides for each function of a file whether it may be trained through."""

    def __init__(self, functions: Functions) -> None:
        self._functions = each_once(functions)
        self._held: dict[tuple[ast.AST, Class | None], bool] = {}

    def holds(self, function: Function, owner: Class | None) -> bool:
        """Is it part of a module's forward or of a loss, by its name or by who calls it?"""
        key = (function.node, owner)
        if key not in self._held:
            self._held[key] = self._holds(function, owner)
        return self._held[key]

    def _holds(self, function: Function, owner: Class | None) -> bool:
        name = _name(function)
        if is_written_by_name(name):
            return False
        if owner is not None:
            return self._is_method(function, owner)
        if is_loss_name(name):
            return True
        if name in self._asked:
            return False
        return name in self._called or _is_for_others(function)

    def trains(self, function: Function) -> bool:
        """Does it run backwards and optimizer steps, by itself or by other functions of the file?"""
        return _name(function) in self._training

    @cached_property
    def _training(self) -> set[str]:
        found, callers = set[str](), dict[str, set[str]]()
        if not any(_trains(source) for source in {function.module.source for function, _ in self._functions}):
            return found
        for name, text in {_name(function): _body(function) for function, _ in self._functions}.items():
            if _trains(text):
                found.add(name)
            for called in _CALLED.findall(text):
                callers.setdefault(called, set()).add(name)
        waiting = set(found)
        while waiting:
            more = callers.pop(waiting.pop(), set()) - found
            found |= more
            waiting |= more
        return found

    @cached_property
    def _asked(self) -> set[str]:
        """The functions that ask whether grad is on, by themselves or by a helper, and the names that these use."""
        asking = {_name(function): function for function, _ in self._functions if _ASKS.search(_text(function))}
        helpers = {name for name, function in asking.items() if _answers(function)}
        used = {_name(function): _names_used(function) for function, _ in self._functions} if asking else {}
        deciding = {name for name, names in used.items() if name in asking or names & helpers}
        return deciding.union(*(used[name] for name in deciding))

    @cached_property
    def _called(self) -> set[str]:
        """The names that trained methods call, and those that the functions of these names call."""
        called = set[str]()
        for function, owner in self._functions:
            if owner is not None and self._is_method(function, owner):
                called |= _names_used(function)
        waiting = set(called)
        alone = {_name(function): function for function, owner in self._functions if owner is None}
        while waiting:
            found = alone.pop(waiting.pop(), None)
            if found is not None:
                more = _names_used(found) - called
                waiting |= more
                called |= more
        return called

    def _is_method(self, function: Function, owner: Class) -> bool:
        name = _name(function)
        framework = framework_behind(owner)
        if framework is not None and name in framework.steps | framework.entry_points:
            return True
        if is_loss_name(name) or is_loss_name(owner.name):
            return True
        if is_outside_training(name) or handles_data(owner.name) or _ASKS.search(_text(function)):
            return False
        base = owner.torch_base()
        if base is not None:
            return base.startswith("torch.nn.")
        if has_unknown_base(owner):
            return owner.find("forward") is not None
        return _is_for_others(function) and name not in used_without_grad(function.module)


def _trains(body: str) -> bool:
    return ("backward(" in body and "step(" in body) or hands_on_optimizers(body)


def _body(function: Function) -> str:
    """Its text without its first lines: the names of its arguments."""
    node = function.node
    first = node.body[0].lineno if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else node.lineno
    return "\n".join(function.module.lines[first - 1 : node.end_lineno])


_ASKS = re.compile(r"is_grad_enabled\(|\.requires_grad\b(?!\s*=)")
"""A function that asks whether grad is on decides by itself which of the functions that it calls may write."""


def _answers(function: Function) -> bool:
    """Does it return whether grad is on, perhaps with other conditions?"""
    ends = (node.value for node in walk(function.node) if isinstance(node, ast.Return) and node.value is not None)
    return any(not isinstance(value, ast.IfExp) and _ASKS.search(ast.unparse(value)) for value in ends)


def _is_for_others(function: Function) -> bool:
    """Is it a function of tensors that other files may train through?"""
    module = function.module
    if never_trained(_name(function)) or is_file_of_data(module.name) or is_file_of_optimizers(module.source):
        return False
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    return any(says_tensor(argument.annotation) for argument in parameters) or _is_given_tensors(
        function.node, parameters
    )


def _is_given_tensors(function: ast.AST, given: list[ast.arg]) -> bool:
    """Does it ask one of its arguments for what only tensors have, or hand it to a function of torch?"""
    names = {argument.arg for argument in given if argument.annotation is None and argument.arg != "self"}
    return any(
        isinstance(name, ast.Name) and name.id in names and method_has(asked, "only_of_tensors")
        for name, asked in _asked_for(function)
    )


def _asked_for(function: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """What a function reads as `x.name`, and what it hands to torch as `torch.name(x)`."""
    for part in walk(function):
        if isinstance(part, ast.Attribute):
            yield part.value, part.attr
        elif isinstance(part, ast.Call) and part.args and text_of(part.func).startswith(_OF_TORCH):
            first = part.args[0]
            several = isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Tuple)  # no list has two indices
            yield first.value if several else first, text_of(part.func).rpartition(".")[2]  # type: ignore[attr-defined]


_OF_TORCH = ("torch.", "F.")


def _name(function: Function) -> str:
    return getattr(function.node, "name", "")


def _names_used(function: Function) -> set[str]:
    """The names that it calls, or hands on to be called: `self.attend(q, k, default=eager_attention)`."""
    return set(_WORD.findall(_text(function)))


_CALLED = re.compile(r"[A-Za-z_]\w*(?=\()")
_WORD = re.compile(r"[A-Za-z_]\w*")


def _text(function: Function) -> str:
    node = function.node
    return "\n".join(function.module.lines[node.lineno - 1 : node.end_lineno])
