"""May a name be bound to a new tensor instead of being written in place? Who would miss the write?

The statement is run as if `holder = holder.clone()` stood before it. The old memory is then *left behind*. If it
is read later, by any name, view, list or attribute, the reader would have seen the write. How it came there does not
matter. The result of an unknown function may lie in the memory of any of its arguments.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Iterable

from outplace.knowledge import ops
from outplace.knowledge.traits import idle_in_evaluation
from outplace.source import calls, expressions, statements, torch_model
from outplace.source.facts import Answer, LaterRead, Question, Span, Where, WriteFacts
from outplace.source.frames import Frame, function_of
from outplace.source.graph import Path, Storage, compatible
from outplace.source.heuristics import keeps_no_result, may_store
from outplace.source.interpreter import Interpreter, Numbers
from outplace.source.joins import options, with_paths
from outplace.source.left_behind import LeftBehind, copy_of, is_buffer, is_fixed, is_parameter
from outplace.source.project import Project
from outplace.source.reachable_tensors import reachable, reachable_from, storages_in
from outplace.source.sources import Sources, written_value
from outplace.source.torch_model.modules import is_module
from outplace.source.torch_model.tensors import requires_grad
from outplace.source.values import (
    UNKNOWN,
    Args,
    Bound,
    Choice,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Keywords,
    Layer,
    Outside,
    Partial,
    Plain,
    Tensor,
    Torch,
    Unknown,
    Value,
)

_ASKED_ABOUT = {"builtins.len", "builtins.isinstance", "builtins.id", "builtins.type", "builtins.hasattr"}
"""Functions that do not read what they are given."""


class Hypothesis(Interpreter):
    """A run in which the holder of one statement gets a new tensor before it."""

    def __init__(self, project: Project, most_steps: int, question: Question, numbers: Numbers | None = None) -> None:
        super().__init__(project, most_steps, numbers)
        self._file, self._at = os.path.abspath(question.file), (question.line, question.column)
        self._holder = ast.parse(question.holder, mode="eval").body if question.holder else None
        self._end, self._until_written = question.end, question.until_written
        self.left: list[LeftBehind] = []
        self.reads: dict[LaterRead, None] = {}
        self.unclear = False
        self.kept: set[Storage] = set()
        """Memory that unknown objects have been given to keep."""
        self.given: set[Storage] = set()
        """Memory that came in with the arguments of an unknown caller."""
        self.from_caller = False
        self.hooks: list[Value] = []
        """What modules that are not known call with their results."""
        self.held: dict[str, None] = {}
        self._operands: set[Storage] = set()
        self._depth = 0
        self._tainted: dict[ast.AST, frozenset[Storage]] = {}
        self._asleep = False
        self._traced: ast.AST | None = None
        """The last call of a function of the project whose unknown result is known to lie in certain memory."""
        self._indexed: list[ast.expr | None] = []
        """Of each expression that is being evaluated: what it takes a part of."""
        self._whole: Value = UNKNOWN
        self._latest: list[LeftBehind] = []
        self._frames: list[Frame] = []
        """The functions that were running then."""
        self._in_forward = False
        self._names: dict[str, None] = {}
        self._given_by: dict[Storage, dict[Span, None]] = {}
        """The expressions that gave each memory, the latest last."""
        self.trails: dict[tuple[Span, ...], None] = {}
        self._ignored: list[LeftBehind] = []
        """What the statement may read: it does so before it writes."""
        self._copies: set[Storage] = set()
        self._unwritten: set[Storage] = set()
        """The latest copies, until they are written."""
        self.sources = Sources(self.tape)
        self._written_value: ast.expr | None = None
        self._value: Value = UNKNOWN
        """What an assignment writes."""
        self._used = False
        """Was the written memory read?"""
        self._backwards = 0
        self._computed_with: dict[Storage, int] = {}
        """Memory that a recorded operation has read, and how many backwards had run then."""
        self._both_values = False
        self._elsewhere: dict[str, None] = {}
        """Containers, objects and callers that had the tensor, too, when it was written."""

        if self._holder is None and self._end == (0, 0):
            self.tape.noticed_writes = []
        self.tape.backward = self._without_notes(self.tape.backward)  # type: ignore[method-assign]

    def _without_notes(self, backward: Callable[..., None]) -> Callable[..., None]:
        """A backward wants what was saved, as it was: its reads ask for no write."""

        def run(*args: object, **keywords: object) -> None:
            asleep, self._asleep = self._asleep, True
            backward(*args, **keywords)
            self._asleep = asleep
            self._backwards += 1

        return run

    # -- the statement ------------------------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> int:
        """As before, but for the statement in question."""
        if self._holder is None:
            return super().block(statements)
        place = next((place for place, one in enumerate(statements) if self._is_asked(one)), None)
        if place is None:
            return super().block(statements)
        ended = super().block(statements[:place]) if place else 0
        if ended:
            return ended
        self._rebind()
        before = self._ignored
        self._ignored = self._latest if _reads_before_it_writes(statements[place]) else []
        latest = self._latest
        self._written_value = written_value(statements[place])
        ended = super().block([statements[place]])
        self._ignored = before
        self._note_written([self._value])
        self._note_trails(latest)
        return ended or super().block(statements[place + 1 :])

    def _is_asked(self, node: ast.stmt | ast.expr) -> bool:
        if (node.lineno, node.col_offset) != self._at:
            return False
        return os.path.abspath(self.frame.module.path) == self._file

    def _rebind(self) -> None:
        assert self._holder is not None
        self._asleep = True
        old = self.eval(self._holder)
        if isinstance(self._holder, ast.Attribute | ast.Subscript):
            owners, name = options(self.eval(self._holder.value)), getattr(self._holder, "attr", None)
            if is_buffer(owners, name):
                self.held["a module"] = None
            if is_fixed(owners, name):
                self.held["an object that cannot be changed"] = None
        new = self._copied(old)
        if new is not old:
            self.bind(self._holder, new, self._holder)
        self._asleep = False
        self._leave_latest()

    def _copied(self, old: Value) -> Value:
        """The value with copies of its tensors, which are left behind from now on."""
        paths = with_paths(old)
        found = [(option, path) for option, path in paths if isinstance(option, Tensor)]
        self.unclear |= any(not isinstance(option, Tensor | Const | Plain) for option, _ in paths)
        copies = {id(tensor): copy_of(tensor) for tensor, _ in found}
        for tensor, _ in found:  # the copy takes its place: what gave the one has given the other
            self._given_by[copies[id(tensor)].storage] = dict(self._given_by.get(tensor.storage, {}))
        self._unwritten = {copied.storage for copied in copies.values()}
        self._copies |= self._unwritten
        here, now = self.tape.path, self.tape.tick()
        self._latest = [
            LeftBehind(
                tensor,
                (*here, *(arm for arm in path if arm not in here)),
                now,
                copies[id(tensor)],
                self._backwards,
                self._computed_with.get(tensor.storage) == self._backwards,
            )
            for tensor, path in found
        ]
        new = [copies.get(id(option), option) for option, _ in paths]
        return old if not found else Choice(tuple(new), old.paths) if isinstance(old, Choice) else new[0]

    def _leave_latest(self) -> None:
        self._frames = list(self.frames)
        self._in_forward |= any(frame.name.split(".")[-1] == "forward" for frame in self.frames)
        for behind in self._latest:
            self.left.append(behind)
            self._note_holders(behind)

    def _note_trails(self, left: list[LeftBehind]) -> None:
        """The expressions that gave the memory, also those of the statement itself."""
        for behind in left:
            spans = {**self._given_by.get(behind.tensor.storage, {}), **self._given_by.get(behind.copy.storage, {})}
            self.trails[tuple(spans)] = None

    def _note_holders(self, behind: LeftBehind) -> None:
        """Who has the tensor, beside the holder?"""
        tensor = behind.tensor
        self.from_caller |= tensor.storage in self.given
        if is_parameter(tensor):
            self.held["a module or an optimizer"] = None
        if tensor.storage in self.kept:
            self.held["an object that is not known"] = None
        for frame in self.frames:
            for name, value in frame.scope.names.items():
                own = frame is self.frame
                named = own and any(isinstance(option, Tensor) for option in options(value))
                if any(behind.is_seen_in(other) for _, other in reachable(name, value)):
                    if not named:  # another name that its own function does not read is no reader
                        self._elsewhere[f"`{name}`"] = None
                    if own:
                        self._names.update(dict.fromkeys([name] if named else behind.attributes_of(name, value)))

    # -- readers -------------------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Value:
        """As before. The result of what is not known may lie in the memory of all that it was made of."""
        outer, depth = self._operands, self._depth
        self._operands, self._depth = set(), len(self.frames)
        self._indexed.append(node.value if isinstance(node, ast.Subscript) else None)
        value = super().eval(node)
        self._indexed.pop()
        own, self._operands, self._depth = self._operands, outer, depth
        is_traced = isinstance(node, ast.Compare) or node is self._traced
        if isinstance(value, Unknown) and not own <= value.of and not is_traced:
            value = Unknown(value.of | own)
        if isinstance(value, Unknown) and value.of:
            self._tainted[node] = value.of
        if depth == len(self.frames):
            outer.update(storages_in(value))
        if not self._asleep:
            value = self.sources.follow(node, value, own)
            self._value = value if node is self._written_value else self._value
            self._note_expression(value, node)
            self._note_operands(value, own)
        if self._holder is None and not self._asleep and self._is_asked_value(node):
            value = self._copied(value)
            self._leave_latest()
            self._note_trails(self._latest)
        if self.left and not self._asleep:
            self._look_at(value, node)
        return value

    def _note_expression(self, value: Value, node: ast.expr) -> None:
        for option in options(value):
            if isinstance(option, Tensor):
                end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
                span = Span(self.frame.module.path, node.lineno, node.col_offset, *end)
                spans = self._given_by.setdefault(option.storage, {})
                spans.pop(span, None)
                spans[span] = None

    def _note_operands(self, value: Value, operands: set[Storage]) -> None:
        """A recorded result was computed with its operands, unless it is a view of one."""
        results = [option for option in options(value) if isinstance(option, Tensor) and option.storage not in operands]
        if any(requires_grad(result) is not False for result in results):
            self._computed_with.update(dict.fromkeys(operands, self._backwards))

    def _look_at(self, value: Value, node: ast.expr) -> None:
        """`x[2:]` reads no more of `x` than that part, if it is a view."""
        if isinstance(node, ast.Subscript):
            whole = [option.storage for option in options(self._whole) if isinstance(option, Tensor)]
            if not all(isinstance(option, Tensor) and option.storage in whole for option in options(value)):
                self._look(self._whole, node.value)
        if self._indexed and node is self._indexed[-1]:
            self._whole = value
        else:
            self._look(value, node)

    def _is_asked_value(self, node: ast.expr) -> bool:
        return self._is_asked(node) and (node.end_lineno, node.end_col_offset) == self._end

    def _look(self, value: Value, node: ast.AST, deep: bool = False) -> None:
        if self.looking_at:
            return
        for option, path in with_paths(value):
            for seen in torch_model.tensors_in(option) if deep else [option]:
                self._note(seen, path, node)

    def _note(self, value: Value, path: Path, node: ast.AST) -> None:
        if isinstance(value, Tensor) and value.storage in self._copies and not self._ignored:
            self._note_copy(value, node)
        for behind in self.left:
            if behind in self._ignored or not compatible(behind.path, self.tape.path, path):
                continue
            if self._until_written and not behind.copy.storage.writes:
                continue
            if isinstance(value, Tensor) and behind.is_seen_in(value):
                self._read(node, behind, value.certain and value.anchor is behind.tensor.anchor, value)
            elif isinstance(value, Plain) and value.storage is behind.tensor.storage:
                self._read(node, behind, value.sure)
            elif isinstance(value, Unknown) and behind.tensor.storage in value.of:
                self._read(node, behind, False)

    def _note_copy(self, value: Tensor, node: ast.AST) -> None:
        """A copy is read. It lacks what was written into the old memory, through another name, after it was made."""
        self._used |= bool(value.storage.writes) or not self._until_written
        own = [item for item in self.left if item.copy.storage is value.storage]
        self._compare_graphs(own)
        for behind in own if self._until_written else ():
            if behind.is_written():
                self._read(node, behind, True, value)

    def _read(self, node: ast.AST, behind: LeftBehind, sure: bool, tensor: Tensor | None = None) -> None:
        self._compare_graphs([behind])
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        frame, running = function_of(self.frame, self.frames), self._frames
        where: Where = "here" if frame is running[-1] else "caller" if frame in running else "elsewhere"
        line = getattr(node, "lineno", 0)
        of_leaf = tensor is not None and tensor.leaf and tensor.family.leaf is not None
        view = tensor.view or "" if tensor is not None else ""
        what = (of_leaf, behind.tensor.leaf, view)
        self.reads[LaterRead(frame.module.path, line, frame.name, text[:80], sure, where, *what)] = None

    def _compare_graphs(self, read: list[LeftBehind]) -> None:
        """Is it read for the graph that was built with the old value?"""
        self._both_values |= any(item.in_graph and item.backwards == self._backwards for item in read)

    def call(self, function: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
        """As before. A function that is not run here reads all that lies in the containers that it is given."""
        arguments = [*args, *keywords.values()]
        self._keep(function, arguments, node)
        runs = isinstance(function, Function | Instance | Partial) or (
            isinstance(function, Bound) and (isinstance(function.function, Function) or not _is_tensor(function))
        )
        asks = isinstance(function, Outside) and function.name in _ASKED_ABOUT
        if self.left and not self._asleep and not (runs or asks or calls.asks_for_shape(function)):
            for value in arguments:
                self._look(value, node, deep=True)
        result = calls.call(self, function, args, keywords, node)
        if is_module(function):
            self.sources.network_ran(result)
        self._note_written(arguments)
        return self._shared(function, arguments, result)

    def _note_written(self, values: list[Value]) -> None:
        """The first write to a copy is the one in question: what does it write?"""
        if any(storage.writes for storage in self._unwritten):
            self._unwritten.clear()
            self.sources.written(values, self._copies | {item.tensor.storage for item in self.left})

    def _shared(self, function: Value, given: list[Value], result: Value) -> Value:
        """What a call of torch has made may be what it was given, if that is not known, or in evaluation."""
        if not isinstance(result, Tensor):
            return result
        if isinstance(function, Bound) and isinstance(function.function, str) and _is_tensor(function):
            return result if _is_followed(function.function) else Unknown(frozenset(storages_in(function.receiver)))
        if not isinstance(function, Torch | Layer):
            return result
        name = function.kind if isinstance(function, Layer) else function.name.removeprefix("torch.")
        op = ops.lookup(name)
        of = frozenset(storage for value in given if isinstance(value, Unknown) for storage in value.of)
        if of and (op is None or op.shares):
            return Unknown(of)
        first = given[0] if given else None
        if isinstance(first, Tensor) and idle_in_evaluation(name) and result.storage is not first.storage:
            result.storage, result.certain, result.region, result.parts = first.storage, False, first.region, ()
        return result

    def call_function(self, function: Function, args: Args, keywords: Keywords, node: ast.AST) -> Value:
        """As before. A decorator may keep what its function returns, as `lru_cache` does."""
        result = calls.call_function(self, function, args, keywords, node)
        self._traced = node if isinstance(result, Unknown) and result.of else None
        decorators = getattr(function.node, "decorator_list", ())
        if not all(map(keeps_no_result, map(_last_name, decorators))):
            self.kept.update(storages_in(result))
        return result

    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        """As before. What is added to a list may be a list."""
        sides = [option for side in (left, right) for option in options(side)]
        if any(isinstance(side, Items | Dictionary) for side in sides) and any(map(_may_hold_items, sides)):
            return Unknown(frozenset(storage for side in sides for storage in storages_in(side)))
        return expressions.binary(self, op, left, right, node)

    def _keep(self, function: Value, given: list[Value], node: ast.AST) -> None:
        """Notes what objects that are not known may keep."""
        name = getattr(getattr(node, "func", None), "attr", "")
        receiver = function.receiver if isinstance(function, Bound) else UNKNOWN
        if name == "register_forward_hook" and not isinstance(receiver, Instance | Layer):
            self.hooks += given[:1]
        unknown = isinstance(function, Unknown | Bound) and any(map(_may_hold_items, options(receiver)))
        if isinstance(function, Outside) and function.name == "builtins.setattr":
            unknown, name = any(map(_may_hold_items, options(given[0]))) if given else False, "setattr"
        if (unknown and may_store(name)) or name in ("__setattr__", "__setitem__"):
            self.kept.update(storage for value in given for storage in storages_in(value))
        if isinstance(function, Bound) and function.function == "retain_grad":
            self.kept.update(storages_in(function.receiver))

    # -- what it is bound to ------------------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """As before. The parts of what is not known lie where it may lie; unknown objects keep what they are given."""
        of = self._iterated(node) if isinstance(value, Unknown) and not value.of else frozenset()
        value = Unknown(of) if of else value
        if isinstance(value, Unknown) and value.of and isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self.bind(part.value if isinstance(part, ast.Starred) else part, value, node)
            return
        if isinstance(target, ast.Attribute | ast.Subscript):
            asleep, self._asleep = self._asleep, True
            holders = options(super().eval(target.value))
            self._asleep = asleep
            copies = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice | ast.Tuple)
            if any(isinstance(holder, Unknown) for holder in holders) and not copies:
                self.kept.update(storages_in(value))
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List | ast.Tuple | ast.Set | ast.Dict):
            self.kept.update(storages_in(super().eval(node.value)))  # `kept += [x]`
        statements.bind(self, target, value, node)

    def _iterated(self, node: ast.AST) -> frozenset[Storage]:
        loops = [node, *getattr(node, "generators", ())]
        found = [self._tainted.get(loop.iter, frozenset()) for loop in loops if hasattr(loop, "iter")]
        return frozenset().union(*found)

    # -- the end ------------------------------------------------------------------------------------------------------

    def end(self, outlasting: Iterable[tuple[str, Value]], attributes: Collection[str]) -> None:
        """The run is over: is the old memory held by something that outlasts it?

        An attribute that nobody reads (all others are in `attributes`) counts unless it is only there for its parts.
        And was the write meant for another reader? A write without a reader makes no sense.
        """
        for storage, write in self.tape.noticed_writes or ():
            node = write.place.node
            if (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)) == self._at:
                self.trails[tuple(self._given_by.get(storage, ()))] = None
        if not self._used:
            self.held.update(self._elsewhere)
        for name, tensor in reachable_from(outlasting) if self.left else ():
            seen = [item for item in self.left if item.is_seen_in(tensor)]
            if name.startswith(".") and name[1:] not in attributes:
                seen = [item for item in seen if item.tensor.view is None or tensor.view is not None]
            if seen:
                self.held[f"`{name}`" if name else "its caller"] = None

    def facts(self) -> WriteFacts:
        """What this run has shown."""
        tensors = [item.tensor for item in self.left]
        return WriteFacts(
            bool(tensors) and (not self._until_written or any(item.copy.storage.writes for item in self.left)),
            self.unclear,
            self.from_caller,
            tuple(self.held),
            tuple(self.reads),
            tuple(self._names),
            tuple(self.trails),
            self._used,
            any(behind.is_written() for behind in self.left),
            _answer([is_parameter(tensor) for tensor in tensors]),
            _answer([tensor.leaf and tensor.known for tensor in tensors]),
            _answer([requires_grad(tensor) for tensor in tensors]),
            self._both_values,
            frozenset(self.sources.found),
            any(tensor.held or tensor.grad is not None for item in self.left for tensor in (item.tensor, item.copy)),
            self._in_forward,
        )


def _answer(facts: list[bool | None]) -> Answer:
    return "unknown" if not facts or None in facts or len(set(facts)) > 1 else "yes" if facts[0] else "no"


def _is_tensor(bound: Bound) -> bool:
    return any(isinstance(option, Tensor) for option in options(bound.receiver))


def _is_followed(method: str) -> bool:
    """Is it known of a method of tensors whether its result is a view?"""
    return ops.lookup(method) is not None and not method.startswith("__")


def _may_hold_items(value: Value) -> bool:
    """Is it not known to be a tensor, nor a container that is followed?"""
    return isinstance(value, Unknown) or (isinstance(value, Tensor) and not value.known)


def _reads_before_it_writes(statement: ast.stmt) -> bool:
    """Does a statement do nothing after its one write?"""
    if isinstance(statement, ast.AugAssign):
        return True
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Subscript) for target in statement.targets)
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Attribute) and not isinstance(function.value, ast.Call)


def _last_name(decorator: ast.expr) -> str:
    """`no_grad` of `@torch.no_grad()`."""
    return ast.unparse(decorator).split("(")[0].split(".")[-1]
