"""Answers questions of a repair about one write: the code that makes it is run again as if a new tensor were written.

First each file as a program, then the functions that lead to the statement and that no program has run. The function
with the statement is run alone only if it was not called: its arguments then belong to an unknown caller.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from outplace.source import torch_model
from outplace.source.analysis import PROGRAM_STEPS, Receivers, functions_of, unknown_arguments
from outplace.source.facts import CallFacts, Container, Question, Span, WriteFacts
from outplace.source.frames import Frame, OutOfSteps
from outplace.source.interpreter import Numbers
from outplace.source.joins import options
from outplace.source.project import Module, Project
from outplace.source.rebinding import Hypothesis
from outplace.source.survey import Survey
from outplace.source.values import Class, Function, Instance, Tensor, Value

_FUNCTION_STEPS = 3_000
_ALL_STEPS = 40_000
"""Of all functions together. Those of the file with the statement go first."""
_MOST_FILES = 8
_CALLED_BY_OTHERS = {"forward", "__call__", "__init__"}
"""Methods that are called by another name than their own."""


_Leading = tuple[bool, bool, bool, Project, Module, Function, Class | None, Receivers, Numbers]
"""Does a function hold the statement, register no hooks, lie in another file? And what its run needs."""


class Inquiry:
    """Questions about files whose texts do not change in between."""

    def __init__(self, texts: Mapping[str, str], roots: Sequence[str] = ()) -> None:
        self._texts = {os.path.abspath(path): text for path, text in texts.items()}
        self._called = {os.path.abspath(path): path for path in texts}
        self._roots = roots
        self._trees = Project(roots, self._texts)
        self._answers: dict[Question, WriteFacts] = {}
        self._attributes: dict[ast.Module, set[str]] = {}
        self._words_of: dict[ast.AST, frozenset[str]] = {}
        self._reads: dict[ast.Module, list[tuple[ast.AST, frozenset[str]]]] = {}
        """The words of each function, and the names that it reads: every question asks for all of them."""
        self._called_by: dict[ast.AST, tuple[frozenset[ast.AST], int]] = {}
        """What each function has called that was run alone, and its steps. A question needs only what leads to it."""
        self._survey = Survey(self._texts, roots, self._trees)

    def ask(self, question: Question) -> WriteFacts:
        """The facts of a write; nothing is known of one that no run comes to."""
        if question not in self._answers:
            try:
                self._answers[question] = self._ask(question)
            except (SyntaxError, ValueError, RecursionError, MemoryError, KeyError):
                self._answers[question] = WriteFacts()
        return self._answers[question]

    def call(self, span: Span) -> CallFacts:
        """What the call at this place runs. Files are named as the asker names them."""
        facts = self._survey.call(span)
        functions = tuple(item._replace(file=self._called.get(item.file, item.file)) for item in facts.functions)
        return replace(facts, functions=functions, layers=tuple(map(self._as_asked, facts.layers)))

    def containers(self, span: Span) -> frozenset[Container]:
        """Which containers the expression at this place may be; empty if it may be something else, or is not known."""
        return self._survey.containers(span)

    def _ask(self, question: Question) -> WriteFacts:
        home = os.path.abspath(question.file)
        words = _leading_words(self._texts, home, question.line)
        wanted = words | _HOOKS
        others = [path for path, text in self._texts.items() if path != home and not wanted.isdisjoint(_words(text))]
        runs: list[Hypothesis] = []
        reached: set[ast.AST] = set()
        opened: list[tuple[Project, Module]] = []
        for path in [*others[: _MOST_FILES - 1], home]:
            project = Project(self._roots, self._texts, like=self._trees)
            module = project.open(path, self._texts[path])
            run = Hypothesis(project, PROGRAM_STEPS, question)
            run.on_call = reached.add
            _guarded(run, lambda run=run, module=module: run.run_module(module))
            runs.append(run)
            opened.append((project, module))
        still_read = self._names_read_in(opened, reached)
        for run, (project, module) in zip(runs, opened, strict=True):
            globals_ = _globals(project, module)
            kept = [(name, value) for name, value in globals_ if _outlasts(value, name, still_read)]
            run.end(kept, self._attributes_read_in(opened) if run.left else ())
        runs.extend(self._alone(opened, question, words, reached))
        facts = _together([run.facts() for run in runs if run.left or run.unclear or run.trails])
        trails = tuple(tuple(map(self._as_asked, trail)) for trail in facts.trails)
        reads = tuple(replace(read, file=self._called.get(read.file, read.file)) for read in facts.reads)
        return replace(facts, trails=trails, reads=reads)

    def _as_asked(self, span: Span) -> Span:
        """The same with the file as the asker calls it."""
        return span._replace(file=self._called.get(span.file, span.file))

    def _alone(
        self,
        opened: list[tuple[Project, Module]],
        question: Question,
        words: set[str],
        reached: set[ast.AST],
    ) -> Iterator[Hypothesis]:
        """The runs of the functions that may lead to the statement, each alone."""
        steps, hooks = _ALL_STEPS, list[Value]()
        home = os.path.abspath(question.file)
        around = _functions_around(self._trees.open(home, self._texts[home]).tree, question.line)
        for holds, without_hooks, _, project, module, function, owner, receivers, numbers in self._leading(
            opened, question, words
        ):
            asked = holds and question.for_any_caller
            if (function.node in reached and not asked) or (steps <= 0 and not holds):
                continue
            known, needed = self._called_by.get(function.node, (None, 0))
            if known is not None and around and without_hooks and around.isdisjoint(known):
                reached |= known
                steps -= needed
                continue
            run = Hypothesis(project, min(max(steps, 0), _FUNCTION_STEPS) or _FUNCTION_STEPS, question, numbers)
            called = set[ast.AST]()
            run.on_call, run.global_hooks = called.add, list(hooks)
            outlasting = _run_alone(run, module, function, owner, receivers)
            self._called_by[function.node] = frozenset(called), run.steps
            reached |= called
            if run.left or run.tape.noticed_writes:
                kept = [
                    (name, value) for other_project, other in opened for name, value in _globals(other_project, other)
                ]
                run.end([*outlasting, *kept], self._attributes_read_in(opened))
            hooks += [*run.hooks, *run.global_hooks[len(hooks) :]]
            steps -= run.steps
            yield run

    def _leading(self, opened: list[tuple[Project, Module]], question: Question, words: set[str]) -> list[_Leading]:
        """The functions that may lead to the statement, in the order in which they are to be run.

        Functions that register hooks go first: what they register is called wherever a module is.
        """
        found: list[_Leading] = []
        for project, module in opened:
            receivers: Receivers = {}
            numbers: Numbers = {}
            elsewhere = os.path.abspath(module.path) != os.path.abspath(question.file)
            for function, owner in functions_of(module):
                used = self._words_in(function.node)
                holds = _holds(function, question)
                hooks = not used.isdisjoint(_HOOKS) and _registers_hook(function.node)
                if holds or hooks or not used.isdisjoint(words):
                    found.append((holds, not hooks, elsewhere, project, module, function, owner, receivers, numbers))
        return sorted(found, key=lambda item: item[:3])

    def _attributes_read_in(self, opened: list[tuple[Project, Module]]) -> set[str]:
        trees = {module.path: module.tree for project, own in opened for module in (own, *project.loaded())}
        for tree in trees.values():
            if tree not in self._attributes:
                self._attributes[tree] = _attributes_read(tree)
        return set().union(*(self._attributes[tree] for tree in trees.values()))

    def _words_in(self, function: ast.AST) -> frozenset[str]:
        if function not in self._words_of:
            self._words_of[function] = _words(ast.unparse(function))
        return self._words_of[function]

    def _names_read_in(self, opened: list[tuple[Project, Module]], reached: Collection[ast.AST]) -> set[str]:
        """Names that functions read which no program has run."""
        for _, module in opened:
            if module.tree not in self._reads:
                self._reads[module.tree] = _names_read(module.tree)
        reads = (read for _, module in opened for read in self._reads[module.tree])
        return {name for function, names in reads if function not in reached for name in names}


def _functions_around(tree: ast.Module, line: int) -> set[ast.AST]:
    """The functions that hold this line: a run that comes to it has called them."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node for node in functions if node.lineno <= line <= (node.end_lineno or node.lineno)}


def _globals(project: Project, module: Module) -> Iterator[tuple[str, Value]]:
    for item in (module, *project.loaded()):
        yield from item.scope.names.items()


def _outlasts(value: Value, name: str, read: set[str]) -> bool:
    """At the end of a program: an object, or a container that is read by code which has not run."""
    return isinstance(value, Instance) or (name in read and not _is_tensor(value))


def _run_alone(
    run: Hypothesis, module: Module, function: Function, owner: Class | None, receivers: Receivers
) -> list[tuple[str, Value]]:
    """Runs a function; what it returns and what it was given outlast it."""
    run.frames.append(Frame(module, module.scope, "<module>"))
    args = unknown_arguments(run, function, owner, receivers)
    run.given = {tensor.storage for value in args for tensor in torch_model.tensors_in(value)}
    returned: list[Value] = []
    _guarded(run, lambda: returned.append(run.call_function(function, args, {}, function.node)))
    return [("", value) for value in (*returned, *args) if not _is_tensor(value)]


def _attributes_read(tree: ast.Module) -> set[str]:
    """Attributes that functions, or the top level, read before they set them."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    top = ast.Module([statement for statement in tree.body if not isinstance(statement, _SCOPES)], [])
    return set().union(
        _read_first(top), *(_read_first(function) for function in functions if function.name != "__init__")
    )


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _read_first(node: ast.AST) -> set[str]:
    """The attributes that it reads before it sets them, if it does."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    updated = {part.target for part in ast.walk(node) if isinstance(part, ast.AugAssign)}
    first: dict[str, int] = {}
    for part in parts:
        if isinstance(part.ctx, ast.Store):
            first[part.attr] = min(part.lineno, first.get(part.attr, part.lineno))
    loads = [part for part in parts if isinstance(part.ctx, ast.Load) or part in updated]
    return {part.attr for part in loads if part.lineno <= first.get(part.attr, part.lineno)}


def _names_read(tree: ast.Module) -> list[tuple[ast.AST, frozenset[str]]]:
    """Each function of a file, with the names that it reads."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    names = [[part for part in ast.walk(function) if isinstance(part, ast.Name)] for function in functions]
    read = [frozenset(name.id for name in found if isinstance(name.ctx, ast.Load)) for found in names]
    return list(zip(functions, read, strict=True))


def _guarded(run: Hypothesis, task: object) -> None:
    """Runs as far as it goes. Where that is not the end, not everything is known of what was left behind."""
    try:
        task()  # type: ignore[operator]
    except (OutOfSteps, RecursionError):
        run.unclear |= bool(run.left)


def _is_tensor(value: Value) -> bool:
    return any(isinstance(option, Tensor) for option in options(value))


def _registers_hook(function: ast.AST) -> bool:
    """Does it give a module a hook that runs in each forward?"""
    names = (node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute))
    return any(name in _HOOKS for name in names)


_HOOKS = {"register_forward_hook", "register_module_forward_hook"}


def _holds(function: Function, question: Question) -> bool:
    node = function.node
    same = os.path.abspath(function.module.path) == os.path.abspath(question.file)
    return same and node.lineno <= question.line <= (node.end_lineno or node.lineno)


def _together(facts: list[WriteFacts]) -> WriteFacts:
    """What several runs have shown. An answer is known if all runs that came to the statement agree."""
    joined: dict[str, Any] = {}
    for field in fields(WriteFacts):
        if isinstance(field.default, str):
            answers = {getattr(fact, field.name) for fact in facts if fact.reached}
            joined[field.name] = answers.pop() if len(answers) == 1 else "unknown"
            continue
        found = [getattr(fact, field.name) for fact in facts]
        if isinstance(field.default, bool):
            joined[field.name] = any(found)
        else:
            kind: type[Any] = type(field.default)
            joined[field.name] = kind(dict.fromkeys(item for items in found for item in items))
    return WriteFacts(**joined)


# -- what leads to the statement --------------------------------------------------------------------------------------


def _leading_words(texts: Mapping[str, str], home: str, line: int) -> set[str]:
    """Names of functions and classes by which a call may come to the statement, through whatever others call them."""
    blocks = [block for text in texts.values() for block in _blocks(text)]
    words = {name for name, first, last, _ in _blocks(texts[home]) if first <= line <= last} - _CALLED_BY_OTHERS
    size = 0
    while len(words) > size:
        size = len(words)
        words |= {name for name, _, _, used in blocks if name not in words and not used.isdisjoint(words)}
        words -= _CALLED_BY_OTHERS
    return words


@lru_cache(maxsize=64)
def _blocks(text: str) -> tuple[tuple[str, int, int, frozenset[str]], ...]:
    """The functions and classes of a text: name, first and last line, words."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    lines = text.split("\n")
    return tuple(
        (node.name, node.lineno, end, _words("\n".join(lines[node.lineno - 1 : end])))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for end in [node.end_lineno or node.lineno]
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))
