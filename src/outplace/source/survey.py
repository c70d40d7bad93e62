"""What the analysis knows of the expressions of some files: what each call runs, and where a value is a container.

The files are run as programs. A function that no program reaches is run alone, with the hypotheses about its arguments.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Mapping, Sequence

from outplace.source import calls
from outplace.source.analysis import FUNCTION_STEPS, PROGRAM_STEPS, Receivers, functions_of, unknown_arguments
from outplace.source.facts import Answer, CallFacts, Container, Definition, Span
from outplace.source.frames import Frame, OutOfSteps
from outplace.source.interpreter import Interpreter, Numbers
from outplace.source.joins import options
from outplace.source.project import Module, Project
from outplace.source.values import (
    Args,
    Bound,
    Dictionary,
    Function,
    Instance,
    Items,
    Keywords,
    Layer,
    Optimizer,
    Outside,
    Partial,
    Unknown,
    Value,
)

_MOST_PROGRAMS = 8


class Survey:
    """The expressions of files whose texts do not change in between."""

    def __init__(self, texts: Mapping[str, str], roots: Sequence[str], trees: Project) -> None:
        """`texts` are by absolute path; `trees` has parsed them."""
        self._texts, self._roots, self._trees = texts, roots, trees
        self._opened: dict[str, tuple[Project, Module]] = {}
        self._alone: set[ast.AST] = set()
        self._receivers: Receivers = {}
        self._numbers: Numbers = {}
        self._notes = _Notes()

    def call(self, span: Span) -> CallFacts:
        """What this call runs; nothing if no run comes to it."""
        span = self._visited(span)
        notes = self._notes
        answers = notes.modules.get(span, {"unknown"})
        made: Answer = "yes" if "yes" in answers else "unknown" if "unknown" in answers else "no"
        return CallFacts(tuple(notes.functions.get(span, ())), tuple(notes.layers.get(span, ())), made)

    def containers(self, span: Span) -> frozenset[Container]:
        """Which containers this name, attribute or part may be; empty if it may be something else, or is not known."""
        kinds = self._notes.kinds.get(self._visited(span), {None})
        return frozenset() if None in kinds else frozenset(kinds)  # type: ignore[arg-type]

    def _visited(self, span: Span) -> Span:
        """The place by its absolute path, after the runs that may come to it."""
        span = span._replace(file=os.path.abspath(span.file))
        with contextlib.suppress(SyntaxError, ValueError, MemoryError, KeyError):
            if span not in self._notes.kinds:
                self._run_programs(span.file)
            if span not in self._notes.kinds:
                self._run_function(span)
        return span

    def _run_programs(self, home: str) -> None:
        name = os.path.splitext(os.path.basename(home))[0]
        others = [path for path, text in self._texts.items() if path != home and name in text]
        for path in [home, *others[: _MOST_PROGRAMS - 1]]:
            if path not in self._opened:
                project = Project(self._roots, self._texts, like=self._trees)
                module = project.open(path, self._texts[path])
                self._opened[path] = project, module
                run = _Surveying(project, PROGRAM_STEPS, self._notes)
                with contextlib.suppress(OutOfSteps, RecursionError):
                    run.run_module(module)

    def _run_function(self, span: Span) -> None:
        """Runs the functions of the file that contain the place, each alone."""
        project, module = self._opened[span.file]
        for function, owner in functions_of(module):
            node = function.node
            if node in self._alone or not node.lineno <= span.line <= (node.end_lineno or node.lineno):
                continue
            self._alone.add(node)
            run = _Surveying(project, FUNCTION_STEPS, self._notes, self._numbers, assumes=True)
            run.frames.append(Frame(module, module.scope, "<module>"))
            with contextlib.suppress(OutOfSteps, RecursionError):
                args = unknown_arguments(run, function, owner, self._receivers)
                run.call_function(function, args, {}, node)


class _Notes:
    """What all runs have shown."""

    def __init__(self) -> None:
        self.functions: dict[Span, dict[Definition, None]] = {}
        """The functions that each call runs."""
        self.layers: dict[Span, dict[Span, None]] = {}
        """The calls that have made the layers which each call runs, directly or further inside."""
        self.made: dict[int, tuple[Value, tuple[Span, ...]]] = {}
        """By the id of a layer or a partial: itself, so that the id stays its own, and the calls that have made it."""
        self.modules: dict[Span, set[Answer]] = {}
        """Whether each call has made a new module or optimizer."""
        self.kinds: dict[Span, set[Container | None]] = {}
        """The containers that each expression has been; None for anything else."""


class _Surveying(Interpreter):
    """A run that takes notes of its expressions."""

    def __init__(
        self,
        project: Project,
        most_steps: int,
        notes: _Notes,
        numbers: Numbers | None = None,
        assumes: bool = False,
    ) -> None:
        super().__init__(project, most_steps, numbers, assumes)
        self._notes = notes
        self._running: list[Span] = []
        """The calls that are running, outermost first."""

    def eval(self, node: ast.expr) -> Value:
        """As before, with notes."""
        value = super().eval(node)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            self._notes.kinds.setdefault(self._span(node), set()).update(map(_container, options(value)))
        return value

    def call(self, function: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value:
        """As before, with notes."""
        if not isinstance(node, ast.Call):
            return calls.call(self, function, args, keywords, node)
        notes, span = self._notes, self._span(node)
        called = notes.functions.setdefault(span, {})
        definition = _definition(function)
        if definition is not None:
            called[definition] = None
        self._running.append(span)
        before = notes.made.get(id(function), (function, ()))[1]
        if before:
            for running in self._running:
                notes.layers.setdefault(running, {}).update(dict.fromkeys(before))
        try:
            result = calls.call(self, function, args, keywords, node)
        finally:
            self._running.pop()
        new: Answer = "yes" if _is_trained(result) and id(result) not in notes.made else "no"
        notes.modules.setdefault(span, set()).add("unknown" if isinstance(function, Unknown | Outside) else new)
        self._note_made(result, (span, *before), args[0] if args else None)
        return result

    def _note_made(self, result: Value, spans: tuple[Span, ...], source: Value | None) -> None:
        """Notes which calls made a layer. A copy, and the layers inside it, were made where the `source` was."""
        if not isinstance(result, Layer | Partial | Instance | Optimizer) or id(result) in self._notes.made:
            return
        of_source = self._notes.made.get(id(source), (source, ()))[1]
        self._notes.made[id(result)] = result, tuple(dict.fromkeys((*spans, *of_source)))
        for name, child in _inside(result).items():
            self._note_made(child, spans, _inside(source).get(name))

    def _span(self, node: ast.expr) -> Span:
        end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Span(self.frame.module.path, node.lineno, node.col_offset, *end)


def _is_trained(value: Value) -> bool:
    """Is it a module or an optimizer, or an object that holds one?"""
    if isinstance(value, Instance):
        return value.cls.torch_base() is not None or any(isinstance(i, Layer | Optimizer) for i in value.names.values())
    return isinstance(value, Layer | Optimizer)


def _container(value: Value) -> Container | None:
    if isinstance(value, Items):
        return value.kind  # type: ignore[return-value]
    return "dict" if isinstance(value, Dictionary) else None


def _inside(value: Value | None) -> dict[str, Value]:
    return value.children if isinstance(value, Layer) else value.names if isinstance(value, Instance) else {}


def _definition(function: Value) -> Definition | None:
    """The function of the project that a call of this value runs; for a module, its forward."""
    bound = isinstance(function, Bound | Instance)
    if isinstance(function, Bound) and isinstance(function.function, Function):
        function = function.function
    elif isinstance(function, Instance):
        found = function.cls.find("__call__") or function.cls.find("forward")
        function = found if found is not None else function
    if not isinstance(function, Function):
        return None
    return Definition(function.module.path, function.node.lineno, function.node.col_offset, bound)
