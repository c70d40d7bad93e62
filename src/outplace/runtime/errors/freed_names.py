"""The name of a tensor that is kept between steps, the line that stores it, and the line that uses it again.

A node has no name. Its tensor may still be alive under one. Otherwise the statements tell: `y, h = cell(x, h)` in the
loop that calls backward, or `self.states[i] = (h, c)` next to the line that computed it. If neither the live values nor
the statements give a name, the tensor has none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeGuard

import torch

from outplace.model import Site, Tensor
from outplace.repair.syntax.code import whole_of
from outplace.repair.syntax.flow import flat, own_parts
from outplace.runtime.locate import graph, names, sites, writers
from outplace.runtime.locate.node_expressions import made_at
from outplace.runtime.locate.sites import Located
from outplace.runtime.record.log import Backward, Instruction
from outplace.runtime.record.user_files import fields_of

_KEEPING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put"}
"""Methods by which a container stores its argument."""
_HOPS = 3


@dataclass(frozen=True)
class Keeper:
    """The statement that stores a tensor, and the target expression."""

    statement: ast.stmt
    target: ast.expr
    filename: str
    function: str
    frame: FrameType | None = None
    """The frame whose loop passes it on, if it is a local name there."""

    @property
    def name(self) -> str:
        """The expression without its index: `self.states` for `self.states[i]`."""
        return ast.unparse(whole_of(self.target))


@dataclass(frozen=True)
class Kept:
    """A tensor that was computed in one step and used in the next."""

    tensor: Tensor
    computed: Located | None
    used: Located | None
    used_at: Site | None
    keeper: Keeper | None
    cached: bool = False
    """Is it a computed weight that `parametrize.cached()` holds?"""

    @property
    def kept_at(self) -> Site | None:
        """The statement that stores it."""
        keeper = self.keeper
        return None if keeper is None else sites.site_of(keeper.filename, keeper.statement, keeper.function)

    @property
    def key(self) -> Any:
        """The same key for all parts of one state."""
        name = self.keeper.name if self.keeper else self.tensor.name
        return name, self.kept_at, self.computed and (self.computed.filename, self.computed.site.line)


def find(kept: Any, user: Any, nodes: set[Any], stack: Sequence[FrameType]) -> Kept:
    """All facts about the tensor that the node `kept` made and the node `user` used. `nodes` are those of the graph."""
    computed, used = (sites.at_place(writers.place_of(node)) for node in (kept, user))
    alive = [path for frame in stack for path, tensor in names.tensors(frame) if _node_of(tensor) is kept]
    cached = any(tensor is not None and _node_of(tensor) is kept for tensor in names.cached_weights().values())
    keeper = None if cached else _in_loop(kept, nodes, computed, stack) or _beside(computed, used, alive)
    name = keeper.name if keeper else next(iter(alive), None) or _in_both(computed, used)
    if keeper and keeper.frame:
        name = next((path for path in alive if path.startswith(f"{keeper.name}[")), name)
    used_at = made_at(writers.place_of(user), user.name())
    return Kept(Tensor(name, *form(kept)), computed, used, used_at, keeper, cached)


def form(node: Any) -> tuple[tuple[int, ...] | None, str | None]:
    """The shape and dtype of a node's result."""
    try:
        metadata = node._input_metadata[0]
        return tuple(metadata.shape), str(metadata.dtype).removeprefix("torch.")
    except (AttributeError, IndexError, RuntimeError, TypeError):
        return None, None


# -- live values -------------------------------------------------------------------------------------------------------


def _node_of(tensor: torch.Tensor) -> Any:
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view made under no_grad whose base was written since: reading it raises
        return None


def value_of(target: ast.expr, frame: FrameType) -> Any:
    """The value of a name or attribute in a frame, without running code of the user; None if unknown."""
    if isinstance(target, ast.Name):
        return frame.f_locals.get(target.id, frame.f_globals.get(target.id))
    if isinstance(target, ast.Attribute):
        held = fields_of(value_of(target.value, frame))
        for part in (held, held.get("_parameters"), held.get("_buffers"), held.get("_modules")):
            if isinstance(part, dict) and target.attr in part:
                return part[target.attr]
    return None


def _holds(value: Any, kept: Any, nodes: set[Any], any_graph: bool) -> bool:
    """Does this value lead to the node: through a tensor of the failed graph, or (`any_graph`) through any tensor?"""
    held = [_node_of(tensor) for tensor in _tensors_in(value)]
    return _leads_to([node for node in held if any_graph or node in nodes], kept)


def _tensors_in(value: Any, depth: int = 2) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth:
        for _, part in names.children("", value):
            yield from _tensors_in(part, depth - 1)


def _leads_to(waiting: list[Any], wanted: Any) -> bool:
    oldest, seen = graph.number_of(wanted) or 0, set()
    while waiting:
        one = waiting.pop()
        if one is wanted:
            return True
        if one is not None and one not in seen and (graph.number_of(one) or -1) > oldest:
            seen.add(one)
            waiting += [following for following, _ in one.next_functions]
    return False


# -- what the statements say -------------------------------------------------------------------------------------------


def targets(statement: ast.AST) -> list[ast.expr]:
    """The targets of a statement: what it assigns to, writes in place, or adds to."""
    found: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        found = flat(statement.targets)
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        found = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        receiver = _written_by(statement.value)
        found = [] if receiver is None else [receiver]
    return [target for target in found if sites.complexity_of_name(target) is not None]


def _written_by(call: ast.Call) -> ast.expr | None:
    """`mem` in `mem.copy_(z)`, `mem[i].copy_(z)` and `mem.mul_(a).add_(b)`; `history` in `history.append(z)`."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return None
    writes = function.attr.endswith("_") and not function.attr.endswith("__")
    if isinstance(function.value, ast.Call):
        return _written_by(function.value) if writes else None
    return function.value if writes or function.attr in _KEEPING else None


def reads(statement: ast.AST) -> set[str]:
    """The names, attributes and items that a statement reads, as source text."""
    found = {
        ast.unparse(node)
        for part in own_parts(statement)
        for node in ast.walk(part)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Load)
    }
    if not isinstance(statement, ast.Assign | ast.AnnAssign):  # an in-place write uses the old value
        found |= {ast.unparse(part) for target in targets(statement) for part in (target, whole_of(target))}
    return found


def _statements(block: ast.AST) -> Iterator[ast.stmt]:
    """The statements inside a block, without those of nested functions."""
    for child in ast.iter_child_nodes(block):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            yield from _statements(child)


def _around(located: Located) -> list[ast.AST]:
    """The blocks around a statement, innermost first, up to its function or module."""
    tree = sites.source_tree(located.filename)
    if tree.tree is None or located.statement is None:
        return []
    found: list[ast.AST] = [tree.tree]
    for node in tree.enclosing(sites.span_of(located.statement)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = []
        found.append(node)
    return [node for node in reversed(found) if node is not located.statement]


def _in_both(computed: Located | None, used: Located | None) -> str | None:
    """The one name that the computing line binds and the using line reads."""
    if computed is None or used is None or computed.statement is None or used.statement is None:
        return None
    if computed.filename != used.filename:
        return None
    in_both = {ast.unparse(whole_of(target)) for target in targets(computed.statement)} & reads(used.statement)
    return in_both.pop() if len(in_both) == 1 else None


def _in_loop(kept: Any, nodes: set[Any], computed: Located | None, stack: Iterable[FrameType]) -> Keeper | None:
    """The name that a loop around the failed backward reads before it binds it: one iteration passes it to the next."""
    for frame in stack:
        here = sites.at_instruction((frame.f_code, frame.f_lasti))
        for loop in _around(here):
            if not isinstance(loop, ast.For | ast.While | ast.AsyncFor):
                continue
            first_read = _first_reads(loop)
            for statement in _statements(loop):
                own = computed is not None and statement is computed.statement
                for target in targets(statement):
                    value = value_of(whole_of(target), frame)
                    if _carries(statement, target, first_read) and _holds(value, kept, nodes, any_graph=own):
                        return Keeper(statement, target, here.filename, here.site.function, frame)
    return None


def _first_reads(loop: ast.AST) -> dict[str, int]:
    """The first line of a loop that reads each name."""
    lines: dict[str, int] = {}
    for statement in _statements(loop):
        for name in reads(statement):
            lines[name] = min(statement.lineno, lines.get(name, statement.lineno))
    return lines


def _carries(statement: ast.stmt, target: ast.expr, first_read: dict[str, int]) -> bool:
    """Is the target of this statement read earlier in the loop, or by the statement itself?"""
    name = ast.unparse(whole_of(target))
    read_before = first_read.get(name, statement.lineno) < statement.lineno
    return isinstance(target, ast.Subscript) or read_before or name in reads(statement)


def _beside(computed: Located | None, used: Located | None, alive: Iterable[str]) -> Keeper | None:
    """The statement near the computing one that stores the result somewhere that outlives the call."""
    around = _around(computed) if computed is not None else []
    if not around or computed is None or computed.statement is None:
        return None
    function, statements = around[-1], list(_statements(around[-1]))
    wanted = _read_by(used)
    ends = {path.split("[")[0].rpartition(".")[2] for path in alive}
    waiting, known = [computed.statement], {computed.statement}
    for _ in range(_HOPS):
        following: list[ast.stmt] = []
        for statement in waiting:
            for target in targets(statement):
                name = ast.unparse(whole_of(target))
                here = statement is computed.statement and isinstance(target, ast.Name)  # it adds nothing new
                found = name in wanted or name.rpartition(".")[2] in ends
                if found and not here and _outlives(whole_of(target), function, statements):
                    return Keeper(statement, target, computed.filename, computed.site.function)
                following += [
                    item for item in statements if item not in known and ast.unparse(target) in _handed_on(item)
                ]
        known.update(following)
        waiting = following
    return None


def _read_by(used: Located | None) -> set[str]:
    """What the using statement reads, and where the names in it were taken from."""
    if used is None or used.statement is None:
        return set()
    found = reads(used.statement)
    around = _around(used)[-1:]
    assignments = [
        statement for block in around for statement in _statements(block) if isinstance(statement, ast.Assign)
    ]
    taken = [
        reads(argument) for argument in assignments if any(ast.unparse(target) in found for target in targets(argument))
    ]
    return found.union(*taken)


def _handed_on(statement: ast.stmt) -> set[str]:
    """The expressions whose own value a statement assigns or stores: alone, or in a tuple, list or dict."""
    values: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        values = [statement.value]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and targets(statement):
        values = statement.value.args
    inner = [node for value in values for node in ast.walk(value)]
    if any(not isinstance(node, _PLAIN) for node in inner):
        return set()
    return {ast.unparse(node) for node in inner if isinstance(node, ast.expr)}


_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Starred,
    ast.expr_context,
)  # fmt: skip


def _outlives(target: ast.expr, function: ast.AST, statements: Iterable[ast.stmt]) -> bool:
    """Does the value of this target outlive the function call?"""
    if isinstance(target, ast.Attribute) or isinstance(function, ast.Module):
        return True
    if not isinstance(target, ast.Name) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    statements = list(statements)
    declared = {
        name for statement in statements if isinstance(statement, ast.Global | ast.Nonlocal) for name in statement.names
    }
    arguments = {part.id for statement in statements for part in ast.walk(statement) if _is_given(part)}
    parameters = {part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg)}
    return target.id in declared or target.id not in arguments | parameters


def _is_given(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


# -- two losses --------------------------------------------------------------------------------------------------------


def receiver(frames: Sequence[Instruction]) -> str | None:
    """The tensor that a call differentiates: `loss` in `loss.backward()`."""
    call = sites.at_instruction(frames[-1]).node if frames else None
    root = _root(call)
    return None if root is None else ast.unparse(root)


def _root(call: ast.AST | None) -> ast.expr | None:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    root = call.func.value if call.func.attr == "backward" and not call.args[:1] else None
    if root is None or ast.unparse(root) in ("torch.autograd", "autograd"):
        root = call.args[0] if call.args else None
    return root if sites.complexity_of_name(root) is not None else None


def graph_of_earlier(backwards: Iterable[Backward], stack: Sequence[FrameType]) -> set[Any]:
    """The nodes of the losses of earlier backwards, if they are still alive under the same names."""
    roots = []
    for backward in backwards:
        call = sites.at_instruction(backward.frames[-1]) if backward.frames else None
        root = _root(call.node) if call is not None else None
        for frame in stack if call is not None else ():
            value = value_of(root, frame) if root and frame.f_code is backward.frames[-1][0] else None
            if isinstance(value, torch.Tensor) and value.grad_fn is not None and not is_given_again(call, frame):
                roots.append(value.grad_fn)
    return set(graph.walk(roots))


def is_given_again(call: Located | None, frame: FrameType) -> bool:
    """May the loss of this call have a new value by now, from the loops around it or the code below it?"""
    root = _root(call.node) if call is not None else None
    if call is None or call.statement is None or root is None:
        return True
    around = _around(call)
    loops = [block for block in around if isinstance(block, ast.For | ast.While | ast.AsyncFor)]
    repeated = [item for block in loops for item in (block, *_statements(block))]
    repeated += [
        statement for statement in _statements(around[-1]) if call.statement.lineno < statement.lineno <= frame.f_lineno
    ]
    name = ast.unparse(whole_of(root))
    return any(_gives(argument, name) for argument in repeated)


def _gives(statement: ast.stmt, name: str) -> bool:
    found = targets(statement)
    if isinstance(statement, ast.For | ast.AsyncFor):
        found = flat([statement.target])
    return any(ast.unparse(whole_of(target)) == name for target in found)
