"""A parameter was replaced, but its optimizer still steps the old one.

`model.fc = nn.Linear(...)` or `w = nn.Parameter(...)` after the optimizer was made: the new parameter gets gradients
and is never updated. Replacing is rare, so replacements are recorded. An optimizer is examined in its first steps, and
again after one of its parameters was replaced. The new parameter must be unchanged when the next backward starts (or
the program ends): a program that updates it by hand has no bug.
"""

from __future__ import annotations

import ast
import atexit
import functools
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as modules

from outplace.knowledge.silent_rules.lost import PARAMETER_REPLACED
from outplace.model import Mutation, Site
from outplace.runtime.locate import names, sites
from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.table import Patch, Undo, registered
from outplace.runtime.record.log import Instruction, frames_to_own_code
from outplace.runtime.record.snapshots import bits, copyable, unobserved
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.optimizers import Known, is_leaf

_get_frame = sys._getframe


class _Replaced(NamedTuple):
    """A parameter that was replaced by another one, in a module that an optimizer may step."""

    old: Weak
    module: Weak
    name: str
    place: Instruction


class _Lost(NamedTuple):
    """A leaf with a gradient and without an optimizer. `contents` is its value after the step."""

    new: Weak
    contents: torch.Tensor
    name: str
    mutation: Mutation | None
    made: Site


class Detector(detector.Detector):
    """Records replacements in modules, and examines the first steps of optimizers."""

    def __init__(self) -> None:
        self._replaced: deque[_Replaced] = deque(maxlen=1_000)
        self.waiting: list[_Lost] = []

    def patches(self) -> Iterator[Patch]:
        """The patches of torch and Python."""
        where, why = "torch.nn.modules.module._global_", "A parameter that is replaced is no longer the optimizer's."
        hook = modules.register_module_parameter_registration_hook
        yield registered(f"{where}parameter_registration_hooks", lambda: hook(self._note_parameter), why)
        module_hook = modules.register_module_module_registration_hook
        yield registered(f"{where}module_registration_hooks", lambda: module_hook(self._note_module), why)
        why = "What is lost is decided at the latest when the program ends."
        yield registered("atexit", self._decide_at_exit, why)

    def _decide_at_exit(self) -> Undo:
        atexit.register(self._at_exit)
        return lambda: atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        scan.guarded(functools.partial(self.on_backward_start, ()))

    def _note_parameter(self, module: Any, name: str, parameter: Any) -> None:
        if not tensor_writes.is_traced() and self.optimizers and parameter is not None:
            old = module._parameters.get(name)
            if old is not None and old is not parameter:
                scan.guarded(functools.partial(self._note, module, name, {"": old}, _get_frame(1)))

    def _note_module(self, module: Any, name: str, child: Any) -> None:
        if not tensor_writes.is_traced() and self.optimizers and child is not None:
            old, frame = module._modules.get(name), _get_frame(1)
            if old is not None and old is not child:
                scan.guarded(lambda: self._note(module, name, dict(old.named_parameters()), frame))

    def _note(self, module: Any, name: str, old: dict[str, Any], frame: FrameType) -> None:
        """`old` are the parameters that the module had under this name."""
        places = frames_to_own_code(frame)
        if not places:
            return
        held = {id(parameter) for parameter in old.values()}
        holding = [known for known in self.optimizers if any(id(item) in held for item in known.parameters())]
        if holding:
            for inner, parameter in old.items():
                path = f"{name}.{inner}" if inner else name
                self._replaced.append(_Replaced(Weak(parameter), Weak(module), path, places[-1]))
            for known in holding:
                self.optimizers.watch(known)

    def on_optimizer_step(self, known: Known, frame: FrameType) -> None:
        """Do some of its parameters lack a gradient, while their replacements have one?"""
        without = {
            id(parameter): parameter
            for parameter in known.parameters()
            if parameter.requires_grad and parameter.grad is None
        }
        if not without:
            return
        held = {id(parameter) for other in self.optimizers for parameter in other.parameters()}
        frames = names.own_frames(None, frame)
        for old, new, name, mutation in (*_renamed(known, frames), *self._replacements(frames)):
            if id(old) not in without or not is_leaf(new) or id(new) in held or old is new:
                continue
            if new.grad is not None and new.shape == old.shape and copyable(new):
                with unobserved():
                    made_at = sites.at_instruction(known.place).site
                    self.waiting.append(_Lost(Weak(new), new.detach().clone(), name, mutation, made_at))

    def _replacements(self, frames: list[FrameType]) -> Iterator[tuple[Any, Any, str, Mutation | None]]:
        for replaced in self._replaced:
            old, module = replaced.old(), replaced.module()
            if old is None or module is None:
                continue
            new = module
            for part in replaced.name.split("."):
                new = None if new is None else getattr(new, part, None)
            path = names.name_in_frames(new, frames, itself=True) if isinstance(new, torch.Tensor) else None
            yield old, new, path or replaced.name, Mutation("rebound", sites.at_instruction(replaced.place).site)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A backward starts, or the program ends. Has anything updated the new parameters since the step?"""
        waiting = list(self.waiting)
        self.waiting.clear()
        for lost in waiting:
            if _stands(lost):
                _tell(lost)


def _renamed(known: Known, frames: list[FrameType]) -> Iterator[tuple[Any, Any, str, Mutation | None]]:
    for name in known.names:
        old, new = name.tensor(), name.now(frames)
        if old is not None and isinstance(new, torch.Tensor) and new is not old:
            code = name.holder if isinstance(name.holder, CodeType) else None
            path = f"self.{name.name}" if code is None else name.name
            yield old, new, path, _binding_of(path, code, known.place)


def _binding_of(path: str, code: CodeType | None, made: Instruction) -> Mutation | None:
    """The line that rebound the name, if only one line can have done it."""
    filename = made[0].co_filename
    tree = sites.source_tree(filename).tree
    if tree is None:
        return None
    first = sites.at_instruction(made).site.line
    scope = ast.walk(_scope(tree, code))
    bound = [node for node in scope if isinstance(node, ast.Assign | ast.AnnAssign) and _binds(node, path)]
    found = [node for node in bound if node.lineno > first or (code is None and not _in_init(tree, node))]
    if len(found) != 1:
        return None
    return Mutation("rebound", sites.site_of(filename, found[0], made[0].co_name))


def _scope(tree: ast.Module, code: CodeType | None) -> ast.AST:
    """The function that a name belongs to; for an attribute, the whole file."""
    named = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and code and node.name == code.co_name
    ]
    starts = {
        line: node for node in named for line in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
    }
    return tree if code is None else starts.get(code.co_firstlineno, tree)


def _binds(node: ast.Assign | ast.AnnAssign, path: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return node.value is not None and any(ast.unparse(part) == path for part in parts)


def _in_init(tree: ast.Module, node: ast.AST) -> bool:
    methods = [item for item in ast.walk(tree) if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    return any(node in ast.walk(method) for method in methods)


def _stands(lost: _Lost) -> bool:
    new = lost.new()
    if new is None:
        return True  # replaced again, as in a loop
    with unobserved():
        return bool(new.shape == lost.contents.shape and torch.equal(bits(new), bits(lost.contents)))


def _tell(lost: _Lost) -> None:
    mutations = () if lost.mutation is None else (lost.mutation,)
    found = names.described(lost.contents, lost.name)
    words = {"line": lost.made.line, "name": lost.name}
    reporting.tell(PARAMETER_REPLACED, found, mutations, words, optimizer_at=lost.made)
