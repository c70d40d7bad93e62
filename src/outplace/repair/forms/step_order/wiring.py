"""Who trains what, as far as the source says it: what a run would show of the values around a step.

Networks are told by what optimizers are given (`G.parameters()`), values by the networks that are run to make them.
What is not plainly there is unknown: then a value is never said to train only these or those.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from outplace.repair.facts.origins import class_name, pairs
from outplace.repair.forms.backward_first import clears
from outplace.repair.forms.step_order.forward import WITHOUT_GRAPH, contexts, made_last
from outplace.repair.forms.step_order.lines import names_bound
from outplace.repair.forms.step_order.order import Order, stepping
from outplace.repair.plan.bug import Moment
from outplace.repair.syntax.code import Function, is_library
from outplace.source.heuristics import makes_optimizer

_OF_A_NETWORK = ("parameters", "named_parameters", "state_dict", "train", "eval", "zero_grad", "modules", "children")

_OF_A_TRAINING = ("zero_grad", "backward", "step", "item", "append", "print", "parameters")
_BUILTIN = ("len", "range", "float", "int", "list", "zip")

_Reached = tuple[set[str], bool]


def known(order: Order) -> Moment:
    """The moment with what the source tells about it; as it was where that is nothing."""
    wiring = Wiring(order)
    stepped = wiring.networks.get(wiring.stepped or "")
    if order.moment.held or not stepped:
        return order.moment
    at = order.outer_backward if order.outer_backward.lineno > order.outer_step.lineno else order.outer_step
    reached = {name: wiring.reached(name, at) for name in wiring.names()}
    held = {name: networks for name, (networks, _) in reached.items() if networks}
    return replace(
        order.moment,
        held=dict.fromkeys(held, "tensor"),
        stale=[name for name, networks in held.items() if networks & stepped],
        for_the_step=[name for name, networks in held.items() if networks <= stepped and reached[name][1]],
        optimizers={name: bool(given is None or given & stepped) for name, given in wiring.networks.items()},
    )


class Wiring:
    """The networks and optimizers of a file, and the values of the function that steps."""

    def __init__(self, order: Order) -> None:
        self._code, self._order = order.code, order
        self._scope = order.code.scope(order.step)

    @cached_property
    def networks(self) -> dict[str, set[str] | None]:
        """What each optimizer was given; None where that cannot be read, or names one network twice."""
        made = [pair for node in self._code.every(ast.Assign) for pair in pairs(node)]
        found = {ast.unparse(target): call for target, call in made if makes_optimizer(call)}
        own = {ast.unparse(target) for target, call in made if ast.unparse(target) not in found} | self._items()
        given = {name: _given(self._listed(call.args[0])) if call.args else None for name, call in found.items()}
        return {name: nets if nets is not None and nets <= own else None for name, nets in given.items()}

    def _items(self) -> set[str]:
        """`nets['G']` of `nets = {"G": Generator()}`."""
        made = [(node, node.value) for node in self._code.every(ast.Assign) if isinstance(node.value, ast.Dict)]
        return {
            f"{ast.unparse(target)}[{key.value!r}]"
            for node, networks in made
            for target in node.targets
            for key, value in zip(networks.keys, networks.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(value, ast.Call)
        }

    def _listed(self, argument: ast.expr) -> ast.expr:
        """The list that a name stands for: `weights = list(A.parameters()) + list(B.parameters())`."""
        at = self._code.statement(argument)
        if not isinstance(argument, ast.Name) or at is None:
            return argument
        made = made_last(self._code, at, argument.id)
        grows = any(
            ast.unparse(node.value) == argument.id for node in self._code.every(ast.Attribute)
        )  # `.extend(...)`
        return made.value if made is not None and isinstance(made.targets[0], ast.Name) and not grows else argument

    @cached_property
    def stepped(self) -> str | None:
        """The optimizer of the step."""
        return stepping(self._order.step)

    def names(self) -> list[str]:
        """The names that the function binds before the step."""
        found = [node for node in ast.walk(self._scope) if isinstance(node, ast.Assign)]
        found.sort(key=lambda node: node.lineno)
        here = [node for node in found if self._code.scope(node) is self._scope]
        return list(dict.fromkeys(name for node in here for name in names_bound(node)))

    def reached(self, name: str, at: ast.stmt, depth: int = 8) -> _Reached:
        """The networks that a value's backward would reach, and whether those are surely all."""
        made = made_last(self._code, at, name)
        if made is None or depth == 0:
            return set(), depth > 0 and self._is_data(name, at, depth)
        if "no_grad" in " ".join(contexts(self._code, made)):
            return set(), True
        return self.reached_by(made.value, made, depth)

    def reached_by(self, value: ast.expr, at: ast.stmt, depth: int = 8) -> _Reached:
        """The same for an expression."""
        networks: set[str] = set()
        sure = True
        waiting: list[ast.AST] = [value]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call):
                run = self._run(node)
                networks |= run[0]
                sure = sure and run[1]
                cut = isinstance(node.func, ast.Attribute) and node.func.attr in WITHOUT_GRAPH
                receiver = [node.func.value] if isinstance(node.func, ast.Attribute) and run[2] and not cut else []
                waiting += [*receiver, *node.args, *(keyword.value for keyword in node.keywords)]
            elif isinstance(node, ast.Attribute) and node.attr in WITHOUT_GRAPH:
                continue
            elif isinstance(node, ast.Name):
                inner = self.reached(node.id, at, depth - 1) if not is_library(node) else (set[str](), True)
                networks |= inner[0]
                sure = sure and inner[1]
            else:
                waiting += ast.iter_child_nodes(node)
        return networks, sure

    def _run(self, call: ast.Call) -> tuple[set[str], bool, bool]:
        """The network that a call runs; whether all is known of it; whether it is a method of a value."""
        function = ast.unparse(call.func)
        every = {one for nets in self.networks.values() for one in nets or ()}
        found = {one for one in every if function == one or function.startswith(f"{one}.")}
        if found:
            asked = isinstance(call.func, ast.Attribute) and call.func.attr in _OF_A_NETWORK
            return (set() if asked else found), True, False
        dotted = not any(isinstance(node, ast.Call | ast.Subscript) for node in ast.walk(call.func))
        if (dotted and is_library(call.func)) or function in (*_BUILTIN, *self._of_torch):
            return set(), True, False
        if isinstance(call.func, ast.Attribute):
            return set(), not isinstance(call.func.value, ast.Name) or call.func.value.id != "self", True
        made = [
            made for node in self._code.every(ast.Assign) for one, made in pairs(node) if ast.unparse(one) == function
        ]
        return set(), len(made) == 1 and class_name(made[0]).endswith("Loss"), False

    @cached_property
    def _of_torch(self) -> set[str]:
        """The functions that are imported from torch by their own names."""
        imports = [node for node in self._code.every(ast.ImportFrom) if (node.module or "").split(".")[0] == "torch"]
        names = {alias.asname or alias.name for node in imports for alias in node.names}
        return {name for name in names if name.islower()}

    def runs_only(self, statement: ast.stmt, networks: set[str], own: set[str]) -> bool:
        """Does it surely run no other networks than these, and write nothing but gradients? It may clip its own."""
        for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
            if name in _OF_A_TRAINING:
                continue
            if "clip_grad" in name:
                clipped = _given(call.args[0]) if call.args else None
                if clipped is None or not clipped <= own:
                    return False
                continue
            run, sure, is_method = self._run(call)
            if not run <= networks or not sure or name.endswith("_"):
                return False
            if is_method and self.reached_by(call.func.value, statement) == (set(), False):  # type: ignore[attr-defined]
                return False  # who knows whose method it is?
        return True

    def looks_at_gradients(self) -> bool:
        """Does more than a report at the end of the program look at gradients?"""
        found = [node for node in self._code.every(ast.Attribute) if node.attr == "grad"]
        return any(self._code.scope(node) is not self._code.tree or self._code.loops(node) for node in found)

    def _is_data(self, name: str, at: ast.stmt, depth: int) -> bool:
        """Is it surely no value of a graph: what a loop takes from data, or a name of the file for such a thing?"""
        loops = [one for one in self._code.loops(at) if not isinstance(one, ast.While) and name in names_bound(one)]
        if loops:
            given = [node.id for node in ast.walk(loops[0].iter) if isinstance(node, ast.Name)]
            return all(
                made_last(self._code, loops[0], one) is None or self._is_apart(one, loops[0], depth) for one in given
            )
        function = self._code.function(at)
        if isinstance(function, Function) and name in [arg.arg for arg in function.args.args]:
            return self._is_given_data(function, name, depth)
        made = [node for node in self._code.tree.body if isinstance(node, ast.Assign) and name in names_bound(node)]
        return len(made) == 1 and self.reached_by(made[0].value, made[0], depth - 1) == (set(), True)

    def _is_given_data(self, function: Function, name: str, depth: int) -> bool:
        """Is this argument surely no value of a graph, in all calls of the function?"""
        names = [arg.arg for arg in function.args.args]
        calls = [node for node in self._code.every(ast.Call) if ast.unparse(node.func).split(".")[-1] == function.name]
        for call in calls:
            bound = isinstance(call.func, ast.Attribute) and names[0] in ("self", "cls")
            place, statement = names.index(name) - bound, self._code.statement(call)
            starred = any(isinstance(one, ast.Starred) for one in call.args)
            if statement is None or starred or not 0 <= place < len(call.args):
                return False
            if self.reached_by(call.args[place], statement, depth - 1) != (set(), True):
                return False
        return bool(calls)

    def _is_apart(self, name: str, at: ast.stmt, depth: int) -> bool:
        return self.reached(name, at, depth - 1) == (set(), True)

    def is_unused(self) -> bool:
        """Are gradients that come to what was stepped, after the step, surely thrown away before the next one?"""
        stepped = self.networks.get(self.stepped or "") or set()
        backward = self._order.backward
        loss = self.reached_by(backward.value, backward)[0] if isinstance(backward, ast.Expr) else set()
        if not loss - stepped or any(node.attr == "grad" for node in self._code.every(ast.Attribute)):
            return False
        return apart(self.networks.values()) and self._is_cleared(self.stepped or "", {})

    def are_kept(self, changed: Mapping[ast.stmt, str]) -> bool:
        """Do all steps take what they took, if these backwards reach only what the given optimizers step?"""
        if not apart(self.networks.values()) or self.looks_at_gradients():
            return False
        return all(self._is_cleared(one, changed) for one in self.networks)

    def _is_cleared(self, optimizer: str, changed: Mapping[ast.stmt, str]) -> bool:
        """Are its gradients cleared before its only step, with no changed backward of another one in between?"""
        block = self._code.block(self._order.outer_step)
        steps = [node for node in self._code.every(ast.Expr) if stepping(node) == optimizer]
        if len(steps) != 1 or steps[0] not in block:
            return False
        left = {optimizer, *(self.networks[optimizer] or ())}
        for statement in reversed(block[: block.index(steps[0])]):
            if changed.get(statement, optimizer) != optimizer:
                return False
            cleared = ast.unparse(statement.value.func.value) if clears(statement) else ""  # type: ignore[attr-defined]
            left = set() if cleared == optimizer else left - {cleared}
            if not left - {optimizer}:
                return True
        return False


def apart(given: Iterable[set[str] | None]) -> bool:
    """Are these sets of networks known, and has no network two optimizers?"""
    sets = list(given)
    names = [name for one in sets for name in one or ()]
    inside = any(name != other and f"{name}.".startswith(f"{other}.") for name in names for other in names)
    return None not in sets and len(names) == len(set(names)) and not inside


def _given(argument: ast.expr) -> set[str] | None:
    """`{"G", "E"}` of `[*G.parameters(), *E.parameters()]`."""
    if isinstance(argument, ast.Starred):
        return _given(argument.value)
    if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and not argument.args:
        return {ast.unparse(argument.func.value)} if argument.func.attr == "parameters" else None
    if isinstance(argument, ast.Call) and ast.unparse(argument.func) in ("list", "chain", "itertools.chain"):
        parts = argument.args
    elif isinstance(argument, ast.List | ast.Tuple):
        parts = argument.elts
    elif isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add):
        parts = [argument.left, argument.right]
    else:
        return None
    found = [_given(part) for part in parts]
    return None if None in found or not found else {name for one in found for name in one or ()}
