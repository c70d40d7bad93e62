"""Runs a program, or one function with unknown arguments, on abstract values."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from outplace.knowledge.kind import SilentRule
from outplace.source import (
    attributes,
    calls,
    contents,
    expressions,
    holders,
    hypotheses,
    python_model,
    statements,
    unseen,
)
from outplace.source.expressions import EXPRESSIONS
from outplace.source.frames import Frame, OutOfSteps, Stop, next_branch, require_time
from outplace.source.graph import Hit, Node, Place
from outplace.source.joins import join_arms, narrowed
from outplace.source.project import Module, Project
from outplace.source.statements import STATEMENTS
from outplace.source.tape import Tape
from outplace.source.torch_model.arrays import Taken
from outplace.source.training_step import Event, EventKind, step_facts
from outplace.source.values import (
    PLAIN,
    UNKNOWN,
    Bound,
    Choice,
    Const,
    Function,
    Namespace,
    Plain,
    Scope,
    Tensor,
    Torch,
    Unknown,
    Value,
    is_none,
)

MODULE_STEPS = 10_000
"""The most steps for the top level of an imported file."""

_STEPS_BETWEEN_LOOKS = 128
"""The number of steps between two looks at the clock."""
_EXPRESSION_STEPS = 100
"""The most steps for an expression of a constructor that builds a layer."""

Numbers = dict[tuple[int, str], tuple[Value, int]]
"""The branch that each question about a value decides. The value is kept, so that its id stays unique."""


class Interpreter:
    """One run of a program, or of one function with unknown arguments."""

    def __init__(
        self, project: Project, most_steps: int, numbers: Numbers | None = None, assumes: bool = False
    ) -> None:
        """`numbers` is shared by runs over the same objects; `assumes`: use the hypotheses about what is not known."""
        self.project = project
        self.assumes = assumes
        self.recorded: list[Node] = []
        """All nodes of a run with hypotheses. Everything that is computed is assumed to be trained through."""
        self.parts: dict[tuple[int, str], tuple[Value, Any]] = {}
        """The tensors found in unknown values, by the holder and the name or key."""
        self._most_steps = most_steps
        self.require_time = partial(require_time, project)
        """Ends the run if the time of the file is over."""
        self.tape = Tape(require_time=self.require_time)  # a method would make a cycle, which nothing collects
        self.frames: list[Frame] = []
        self.steps = 0
        self.on_call: Callable[[ast.AST], None] = lambda _node: None
        """Is called with each function that is run."""
        self.lazy: ast.AST | None = None
        """The call that a `for` statement iterates over. If it is a generator's, the loop body runs at each `yield`."""
        self._numbers = {} if numbers is None else numbers
        self.global_hooks: list[Value] = []
        """The hooks that were passed to `register_module_forward_hook`."""
        self.training: set[int] = set()
        """Modules in the middle of a call of `train`. This stops the recursion if a module contains itself."""
        self.updates: dict[ast.AST, holders.Update] = {}
        """The statements that update what a variable refers to."""
        self.taken: dict[int, dict[int, list[Taken]]] = {}
        """For each array, the tensors that each call has made on parts of it."""
        self.reordered = False
        """True if the program asks for another memory format. Then no tensor is known to be contiguous."""
        self.lost_in: set[ast.AST] = set()
        """The functions in which an unknown call received a tensor of the graph. Its result cannot be followed."""
        self.looking_at = False
        """True while only the shape or another property of an argument is read."""
        self._loops = 0
        self._changes: list[tuple[dict[str, Value], str, Value | None]] | None = None

    @property
    def frame(self) -> Frame:
        """The frame of the running function."""
        return self.frames[-1]

    def place(self, node: ast.AST) -> Place:
        """Returns a place in the running function."""
        return Place(self.frame.module, node, self.frame.name)

    def record(self, operation: str, node: ast.AST) -> Node:
        """Makes a node that autograd records here."""
        graph_node = Node(operation, self.place(node), self.tape.tick(), self.tape.path, self.tape.group)
        if self.assumes:
            self.recorded.append(graph_node)
        return graph_node

    def lines(self, node: ast.AST) -> list[tuple[Frame, int]]:
        """Returns the running functions, outermost first, with the current line of each."""
        at = [frame.calling for frame in self.frames[:-1]] + [node]
        return [(frame, getattr(place, "lineno", 0)) for frame, place in zip(self.frames, at, strict=True)]

    def note(self, kind: EventKind, parameters: Iterable[Tensor], node: ast.AST, whole: bool = True) -> None:
        """Records an event of a training step. `whole`: these are certainly all parameters that it concerns."""
        tape = self.tape
        each = tuple({id(parameter): parameter for parameter in parameters}.values())
        tape.events.append(Event(kind, self.lines(node), each, tape.tick(), tape.path, whole))

    def go_backward(
        self, roots: list[Node], node: ast.AST, inputs: list[Tensor] | None, keeps_graph: bool = True
    ) -> None:
        """Runs `loss.backward()`. Hits caused by an optimizer step get the order of the training step."""
        tape, first = self.tape, len(self.tape.hits)
        reached = tape.reached(roots, inputs)
        leaves = inputs if inputs is not None else [leaf for item in reached for leaf in item.leaves]
        self.note("backward", leaves, node, whole=bool(roots) and not any(item.partial for item in reached))
        tape.accumulate(roots, self.place(node), inputs)
        found = tape.hits[first:]
        if any(hit.kind == "stepped" for hit in found):
            facts = step_facts(tape, roots, self.lines(node))
            tape.hits[first:] = [replace(hit, order=facts) if hit.kind == "stepped" else hit for hit in found]
        if self.assumes and not keeps_graph:
            unseen.free(reached)

    def hit(self, kind: str, node: ast.AST, certain: bool, detail: str = "", **facts: Any) -> None:
        """Reports a bug at the statement itself."""
        facts.setdefault("group", self.tape.group)
        self.tape.hits.append(Hit(kind, None, self.place(node), certain, detail=detail, **facts))

    @property
    def grad(self) -> str:
        """The grad mode: "on", "off", "inference" or "unknown"."""
        return self.tape.mode

    @grad.setter
    def grad(self, mode: str) -> None:
        self.tape.mode = mode

    def hit_silent(self, rule: SilentRule, node: ast.AST, certain: bool) -> None:
        """Reports a silent bug at the statement itself."""
        self.hit(rule.family, node, certain, rule.name)

    def run_module(self, module: Module) -> None:
        """Runs the top level of a file, once."""
        if module.started:
            return
        module.started = True
        module.scope.names.setdefault("__name__", Const("__main__"))
        self.in_frame(Frame(module, module.scope, "<module>"), lambda: self.block(module.tree.body))

    def in_frame(self, frame: Frame, run: Callable[[], object]) -> None:
        """Runs something in the frame of another function, class or file."""
        self.frames.append(frame)
        try:
            run()
        finally:
            self.frames.pop()

    def import_module(self, name: str) -> Value:
        """Returns the value that `import name` binds."""
        top = name.split(".")[0]
        if top == "torch":
            return Torch(name)
        path = None if top in python_model.MODELLED else self.project.find(name, self.frame.module)
        return python_model.outside(name) if path is None else Namespace(path, name)

    def names_of(self, namespace: Namespace) -> dict[str, Value]:
        """Returns the names that a module of the project defines."""
        module = self.project.load(namespace.path)
        if module is None:
            return {}
        if not module.started:
            module.scope.names["__name__"] = Const(module.name)
            with contextlib.suppress(OutOfSteps):
                self._run_apart(lambda: self.within(MODULE_STEPS, lambda: self.run_module(module)))
        return module.scope.names

    def _run_apart(self, run: Callable[[], object]) -> None:
        """Runs something outside the current branch, loop and grad mode."""
        saved = self.grad, self.tape.path, self._changes, self._loops, self.frames
        self.grad, self.tape.path, self._changes, self._loops, self.frames = "on", (), None, 0, self.frames[:1]
        try:
            run()
        finally:
            self.grad, self.tape.path, self._changes, self._loops, self.frames = saved

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most_steps or not self.steps % _STEPS_BETWEEN_LOOKS:
            self._check_budget()

    def _check_budget(self) -> None:
        if self.steps > self._most_steps or self.project.is_out_of_time():
            raise OutOfSteps

    def within(self, steps: int, run: Callable[[], object]) -> None:
        """Runs something with its own number of steps. If it is cut off, the state is as before."""
        saved = self.steps, self._most_steps, list(self.frames), self.grad, self.tape.path, self._changes, self._loops
        group = self.tape.group
        self.steps, self._most_steps = 0, steps
        try:
            run()
        finally:
            self.steps, self._most_steps, self.frames, self.grad, self.tape.path, self._changes, self._loops = saved
            self.tape.group = group

    def with_part_of_steps(self, run: Callable[[], object]) -> None:
        """Runs something with a third of the remaining steps. If these are used up, it ends, and the caller goes on."""
        limit = self._most_steps
        saved = list(self.frames), self.grad, self.tape.path, self._changes, self._loops, self.tape.group
        self._most_steps = self.steps + max((limit - self.steps) // 3, 0)
        try:
            run()
        except OutOfSteps:
            self.frames, self.grad, self.tape.path, self._changes, self._loops, self.tape.group = saved
            if self.steps > limit:
                raise
        finally:
            self._most_steps = limit

    def block(self, statements: list[ast.stmt]) -> int:
        """Runs statements in order until one leaves the block."""
        for statement in statements:
            self.steps += 1  # the same as `_step`
            if self.steps > self._most_steps or not self.steps % _STEPS_BETWEEN_LOOKS:
                self._check_budget()
            run: Callable[[Interpreter, Any], int] | None = STATEMENTS.get(type(statement))
            if run is not None:
                ended = run(self, statement)
                if ended:
                    return ended
        return Stop.RAN

    def eval_within(self, function: Function, receiver: Value, node: ast.expr) -> Value:
        """Returns the value of one expression of a method. Arguments get defaults, or values by the hypotheses."""
        frame = Frame(function.module, Scope(function.scope), function.name, function)
        arguments = hypotheses.constructor_arguments(self, function)
        calls.bind_arguments(function, frame.scope, [receiver, *arguments], {})
        found: list[Value] = []
        with contextlib.suppress(OutOfSteps):
            self.within(_EXPRESSION_STEPS, lambda: self.in_frame(frame, lambda: found.append(self.eval(node))))
        return found[0] if found else UNKNOWN

    def set_name(self, holder: dict[str, Value], name: str, value: Value) -> None:
        """Sets an attribute, so that an undecided branch can undo it."""
        if self._changes is not None:
            self._changes.append((holder, name, holder.get(name)))
        holder[name] = value

    def eval(self, node: ast.expr) -> Value:
        """Returns the value of an expression."""
        run = EXPRESSIONS.get(type(node))
        return UNKNOWN if run is None else run(self, node)

    def each(self, value: Value, run: Callable[[Value], Value]) -> Value:
        """Runs something on each value that this may be on the current path, each on the path that leads to it."""
        chosen = narrowed(value, self.tape.path) if isinstance(value, Choice) else value
        if not isinstance(chosen, Choice):
            return run(chosen)
        tape, results = self.tape, []
        path, group, number = tape.path, tape.group, tape.tick()
        count = _number_of(chosen.options)
        for place, (option, arms) in enumerate(zip(chosen.options, chosen.paths, strict=True)):
            tape.path = (*path, *(arm for arm in arms if arm not in path))
            tape.group = (*group, (number, place, count))
            results.append(run(option))
        tape.path, tape.group = path, group
        return join_arms(results, list(chosen.paths))

    def branch_number(self, value: Value, question: str) -> int | None:
        """Returns the branch that a test of this value decides, always the same; None if the value has no identity."""
        asked = isinstance(value, (Unknown, Plain)) or (isinstance(value, Tensor) and not value.known)
        if value is UNKNOWN or value is PLAIN or not asked:
            return None
        _, number = self._numbers.setdefault((id(value), question), (value, next_branch()))
        return number

    truth = staticmethod(contents.truth)
    iterate = python_model.iterate
    attribute = attributes.attribute
    set_attribute = statements.set_attribute
    call = calls.call
    call_function = calls.call_function
    binary = expressions.binary
    bind = statements.bind
    make_function = statements.make_function


def _number_of(options: Sequence[Value]) -> int:
    """Returns on how many values a statement may be run. `loss = 0` does not count, nor does a tensor without a graph.

    The first has no backward, and PyTorch refuses that of the second.
    """
    losses = [option for option in options if isinstance(option, Bound) and option.function == "backward"]
    tensors = [loss.receiver for loss in losses if isinstance(loss.receiver, Tensor)]
    return sum(loss.requires_grad is not False for loss in tensors) or sum(not is_none(option) for option in options)
