"""Gradients that nobody uses: a parameter was replaced, and its optimizer still steps the old one.

`model.fc = nn.Linear(...)` or `w = nn.Parameter(...)` after the optimizer was made: the new one gets gradients and is
never updated. Replacing is rare, so that is what is noted; an optimizer is looked at in its first steps, and again in
those after one of its parameters was replaced. The new one must stand unchanged when the next backward starts (or when
the program ends): whoever updates it by hand has no bug. And two leaves with one tensor as their `.grad`, into which
backward adds the gradients of both.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as modules

from outplace.knowledge.silent_rules.gradients import SHARED_GRADIENT
from outplace.knowledge.silent_rules.lost import PARAMETER_REPLACED
from outplace.model import Mutation, Site
from outplace.runtime.locate import names, sites
from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch, Undo, registered
from outplace.runtime.record.log import Instruction, frames_to_own_code
from outplace.runtime.record.snapshots import PLAIN, bits, copyable, unobserved
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.record.user_files import fields_of
from outplace.runtime.silent import reporting, scan
from outplace.runtime.silent.rules import data_assign_detaches, grad_by_reference, leaf_aliases_source

_get_frame = sys._getframe
_STEPS = 3
"""So many steps of an optimizer are looked at."""


class _Name(NamedTuple):
    """A name for a parameter: a variable of a function, or an attribute of an object."""

    holder: CodeType | Weak
    name: str
    tensor: Weak

    def now(self, frames: list[FrameType]) -> Any:
        """What the name means now; None where that cannot be known."""
        if isinstance(self.holder, CodeType):
            frame = next((one for one in frames if one.f_code is self.holder), None)
            return None if frame is None else frame.f_locals.get(self.name)
        owner = self.holder()
        return None if owner is None else vars(owner).get(self.name)


class _Known:
    """An optimizer: where it was made, what its parameters were called there, and how often it is still looked at."""

    __slots__ = ("left", "names", "optimizer", "place", "watching")

    def __init__(self, optimizer: Any, place: Instruction, own: list[_Name]) -> None:
        self.optimizer, self.place, self.names = Weak(optimizer), place, own
        self.left, self.watching = _STEPS, False

    def parameters(self) -> list[Any]:
        """Those that it steps."""
        optimizer = self.optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        return [parameter for group in groups for parameter in group["params"]]


_optimizers: dict[int, _Known] = {}


def _note_optimizer(optimizer: Any) -> None:
    """A group of parameters is being added, mostly because the optimizer is being made."""
    if not tensor_writes.is_traced():
        scan.guarded(functools.partial(_meet, optimizer, _get_frame(1)))


def _meet(optimizer: Any, frame: FrameType) -> None:
    frames = names.own_frames(None, frame)
    if not frames:
        return
    key = id(optimizer)
    known = _optimizers.get(key)
    if known is None or known.optimizer() is not optimizer:
        for gone in [one for one, other in _optimizers.items() if other.optimizer() is None]:
            del _optimizers[gone]
        known = _optimizers[key] = _Known(optimizer, (frames[0].f_code, frames[0].f_lasti), [])
        _watch(known)
    known.names += _names_in(frames[0])


def _names_in(frame: FrameType) -> list[_Name]:
    """Leaves that the user's function has names for, and those of the object whose method it is."""
    found = [_Name(frame.f_code, name, Weak(value)) for name, value in frame.f_locals.items() if _is_leaf(value)]
    owner = frame.f_locals.get("self")
    with contextlib.suppress(TypeError):  # not all objects can be referred to weakly
        found += [_Name(Weak(owner), name, Weak(value)) for name, value in fields_of(owner).items() if _is_leaf(value)]
    return found


def _is_leaf(value: Any) -> bool:
    return type(value) in PLAIN and value.requires_grad and value.is_leaf


# -- parameters of modules ------------------------------------------------------------------------------------------


class _Replaced(NamedTuple):
    """A parameter that another one took the place of, in a module that optimizers may know."""

    old: Weak
    module: Weak
    name: str
    place: Instruction


_replaced: deque[_Replaced] = deque(maxlen=1_000)


def _note_parameter(module: Any, name: str, parameter: Any) -> None:
    if not tensor_writes.is_traced() and _optimizers and parameter is not None:
        old = module._parameters.get(name)
        if old is not None and old is not parameter:
            scan.guarded(functools.partial(_note_replaced, module, name, {"": old}, _get_frame(1)))


def _note_module(module: Any, name: str, child: Any) -> None:
    if not tensor_writes.is_traced() and _optimizers and child is not None:
        old, frame = module._modules.get(name), _get_frame(1)
        if old is not None and old is not child:
            scan.guarded(lambda: _note_replaced(module, name, dict(old.named_parameters()), frame))


def _note_replaced(module: Any, name: str, old: dict[str, Any], frame: FrameType) -> None:
    """`old` are the parameters that stood under this name in the module."""
    places = frames_to_own_code(frame)
    if not places:
        return
    held = {id(parameter) for parameter in old.values()}
    known = [one for one in _optimizers.values() if any(id(parameter) in held for parameter in one.parameters())]
    if known:
        for inner, one in old.items():
            path = f"{name}.{inner}" if inner else name
            _replaced.append(_Replaced(Weak(one), Weak(module), path, places[-1]))
        for one in known:
            one.left = _STEPS
            _watch(one)


# -- steps ----------------------------------------------------------------------------------------------------------


def _watch(known: _Known) -> None:
    """Has the optimizer's next steps looked at."""
    optimizer = known.optimizer()
    if optimizer is not None and not known.watching and hasattr(optimizer, "_optimizer_step_post_hooks"):
        known.watching = True
        optimizer._optimizer_step_post_hooks[_OURS] = _StepHook(known)


_OURS = -1
"""Our key among an optimizer's hooks; torch's own count from 0."""


class _StepHook:
    """Called after a step. In a copy of the optimizer, or a pickle, it is a function that does nothing."""

    __slots__ = ("_known",)

    def __init__(self, known: _Known) -> None:
        self._known = known

    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if tensor_writes.is_traced():
            return
        known = self._known
        known.left -= 1
        if known.left <= 0 and len(optimizer._optimizer_step_post_hooks) == 1:
            # Torch is going through the hooks just now: another dict takes the place of this one.
            optimizer._optimizer_step_post_hooks = type(optimizer._optimizer_step_post_hooks)()
            known.watching = False
        if known.left >= 0 and known.optimizer() is optimizer:
            scan.guarded(functools.partial(grad_by_reference.look, optimizer, known.parameters()))
            scan.guarded(functools.partial(data_assign_detaches.look, known.parameters()))
            scan.guarded(functools.partial(leaf_aliases_source.look, optimizer, known.parameters(), _get_frame(1)))
            reporting.raise_if_strict()
            scan.guarded(functools.partial(_look, known, _get_frame(1)))

    def __reduce__(self) -> Any:
        return _get_nothing, ()


def _get_nothing() -> Any:
    return _do_nothing


def _do_nothing(optimizer: Any, args: Any, kwargs: Any) -> None:
    pass


def _watch_no_more() -> None:
    for known in _optimizers.values():
        getattr(known.optimizer(), "_optimizer_step_post_hooks", {}).pop(_OURS, None)
    _optimizers.clear()


class _Lost(NamedTuple):
    """A leaf that has a gradient and no optimizer; `contents` is what it held after the step."""

    new: Weak
    contents: torch.Tensor
    name: str
    mutation: Mutation | None
    made: Site


_lost: list[_Lost] = []


def _look(known: _Known, frame: FrameType) -> None:
    without = {id(one): one for one in known.parameters() if one.requires_grad and one.grad is None}
    if not without:
        return
    held = {id(one) for other in _optimizers.values() for one in other.parameters()}
    frames = names.own_frames(None, frame)
    for old, new, name, mutation in (*_renamed(known, frames), *_replacements(frames)):
        if id(old) not in without or not _is_leaf(new) or id(new) in held or old is new:
            continue
        if new.grad is not None and new.shape == old.shape and copyable(new):
            with unobserved():
                made = sites.at_instruction(known.place).site
                _lost.append(_Lost(Weak(new), new.detach().clone(), name, mutation, made))


def _renamed(known: _Known, frames: list[FrameType]) -> Iterator[tuple[Any, Any, str, Mutation | None]]:
    for name in known.names:
        old, new = name.tensor(), name.now(frames)
        if old is not None and isinstance(new, torch.Tensor) and new is not old:
            code = name.holder if isinstance(name.holder, CodeType) else None
            path = f"self.{name.name}" if code is None else name.name
            yield old, new, path, _binding_of(path, code, known.place)


def _replacements(frames: list[FrameType]) -> Iterator[tuple[Any, Any, str, Mutation | None]]:
    for replaced in _replaced:
        old, module = replaced.old(), replaced.module()
        if old is None or module is None:
            continue
        new = module
        for part in replaced.name.split("."):
            new = None if new is None else getattr(new, part, None)
        path = names.name_in_frames(new, frames, itself=True) if isinstance(new, torch.Tensor) else None
        yield old, new, path or replaced.name, Mutation("rebound", sites.at_instruction(replaced.place).site)


def _binding_of(path: str, code: CodeType | None, made: Instruction) -> Mutation | None:
    """The line that gave the name another meaning, where there is only one that can have."""
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
    """The function that a name belongs to; the whole file, for an attribute."""
    named = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and code and node.name == code.co_name
    ]
    starts = {line: node for node in named for line in (node.lineno, *(one.lineno for one in node.decorator_list))}
    return tree if code is None else starts.get(code.co_firstlineno, tree)


def _binds(node: ast.Assign | ast.AnnAssign, path: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return node.value is not None and any(ast.unparse(part) == path for part in parts)


def _in_init(tree: ast.Module, node: ast.AST) -> bool:
    methods = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    return any(node in ast.walk(method) for method in methods)


def _decide(_nodes: Iterable[Any] = ()) -> None:
    """A backward starts, or the program ends: has anybody updated them meanwhile?"""
    waiting = list(_lost)
    _lost.clear()
    for one in waiting:
        if _stands(one):
            _tell(one)


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


# -- one tensor as the gradient of two leaves -----------------------------------------------------------------------


class _Shared:
    """A gradient that was assigned while another leaf had it."""

    __slots__ = ("gradient", "left", "place")

    def __init__(self, gradient: torch.Tensor, place: Instruction) -> None:
        self.gradient, self.place, self.left = Weak(gradient), place, _STEPS


_shared: list[_Shared] = []


def note_gradient(gradient: torch.Tensor, frame: FrameType) -> None:
    """Called on what is assigned to a `.grad`: a tensor that C++ holds elsewhere may be another leaf's."""
    place = (frame.f_code, frame.f_lasti)
    if gradient._use_count() > 1 and scan.worth_a_look(place):
        _shared.append(_Shared(gradient, place))
        del _shared[:-100]


def _gradients_wait() -> bool:
    _shared[:] = [one for one in _shared if one.left > 0 and one.gradient() is not None]
    return bool(_shared)


def _find_shared(nodes: Iterable[Any]) -> None:
    owners: dict[int, list[Any]] = {}
    for node in nodes:
        for following, _ in node.next_functions:
            variable: Any = getattr(following, "variable", None)
            if type(variable) in PLAIN and variable.grad is not None:
                having = owners.setdefault(id(variable.grad), [])
                if not any(one is variable for one in having):
                    having.append(variable)
    for one in _shared:
        one.left -= 1
        gradient = one.gradient()
        if gradient is not None and len(owners.get(id(gradient), ())) > 1:
            one.left = 0
            _report_shared(one, gradient)


def _report_shared(shared: _Shared, gradient: torch.Tensor) -> None:
    located = sites.at_instruction(shared.place)
    statement = located.statement
    name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else None
    site = located.site if statement is None else sites.site_of(located.filename, statement, located.site.function)
    found, mutations = names.described(gradient, name), (Mutation("grad =", site),)
    reporting.tell(SHARED_GRADIENT, found, mutations)


def install() -> None:
    """Starts looking for lost gradients."""
    for forgotten in (_optimizers, _replaced, _lost, _shared):
        forgotten.clear()
    grad_by_reference.forget()
    data_assign_detaches.forget()
    scan.also_look(_lost, lambda: True, _decide)
    scan.also_look(_shared, _gradients_wait, _find_shared)


def patches() -> Iterator[Patch]:
    """What is changed in torch and Python."""
    why = "After its step each optimizer is asked for parameters that have no gradient."
    target = "torch.optim.Optimizer()._optimizer_step_post_hooks"
    yield registered(target, lambda: _watch_no_more, why, "The hook of each optimizer is removed.")
    why = "The optimizers of a program and their parameters are known by it."
    yield injected(torch.optim.Optimizer.add_param_group, "param_group", "self", _note_optimizer, why)
    where, why = "torch.nn.modules.module._global_", "A parameter that is replaced is no longer the optimizer's."
    register_parameter = modules.register_module_parameter_registration_hook
    yield registered(f"{where}parameter_registration_hooks", lambda: register_parameter(_note_parameter), why)
    register_module = modules.register_module_module_registration_hook
    yield registered(f"{where}module_registration_hooks", lambda: register_module(_note_module), why)
    why = "What is lost is decided at the latest when the program ends."
    yield registered("atexit", _decide_at_end, why)


def _decide_at_end() -> Undo:
    atexit.register(_at_end)
    return lambda: atexit.unregister(_at_end)


def _at_end() -> None:
    scan.guarded(_decide)
