"""Asks the analysis about one write: all that runs it is run again, under the hypothesis of `rebinding`.

First each file as a program, then the functions that lead to the statement and that no program has run. The function
with the statement is run alone only where nobody has called it: what it is given then belongs to an unknown caller.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from outplace.source import torch_model
from outplace.source.analysis import PROGRAM_STEPS, Receivers, functions_of, unknown_arguments
from outplace.source.facts import Answer, Question, WriteFacts
from outplace.source.interpreter import Numbers
from outplace.source.machine import Frame, OutOfSteps
from outplace.source.project import Module, Project
from outplace.source.rebinding import Hypothesis
from outplace.source.values import Class, Function, Tensor, Value, options

_FUNCTION_STEPS = 3_000
_ALL_STEPS = 100_000
"""Of all functions together."""
_MOST_FILES = 8
_CALLED_BY_OTHERS = {"forward", "__call__", "__init__"}
"""Methods that are called by another name than their own."""


class Inquiry:
    """Questions about files whose texts do not change in between."""

    def __init__(self, texts: Mapping[str, str], roots: Sequence[str] = ()) -> None:
        self._texts = {os.path.abspath(path): text for path, text in texts.items()}
        self._roots = roots
        self._trees = Project(roots, self._texts)
        self._answers: dict[Question, WriteFacts] = {}

    def ask(self, question: Question) -> WriteFacts:
        """The facts of a write; nothing is known of one that no run comes to."""
        if question not in self._answers:
            try:
                self._answers[question] = self._ask(question)
            except (SyntaxError, ValueError, RecursionError, MemoryError, KeyError):
                self._answers[question] = WriteFacts()
        return self._answers[question]

    def _ask(self, question: Question) -> WriteFacts:
        home = os.path.abspath(question.file)
        words = _leading_words(self._texts, home, question.line)
        others = [path for path, text in self._texts.items() if path != home and _mentions(text, words)]
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
        for run, (_, module) in zip(runs, opened, strict=True):
            run.end(module.scope.names.items(), _names_read_in(opened, reached) | _attributes_read_in(opened))
        runs.extend(self._alone(opened, question, words, reached))
        return _together([run.facts() for run in runs if run.left or run.unclear])

    def _alone(
        self, opened: list[tuple[Project, Module]], question: Question, words: set[str], reached: set[ast.AST]
    ) -> Iterator[Hypothesis]:
        steps, last, read = _ALL_STEPS, [], _names_read_in(opened)
        for project, module in opened:
            receivers: Receivers = {}
            numbers: Numbers = {}
            for function, owner in functions_of(module):
                holds = _holds(function, question)
                if function.node in reached or not (holds or _mentions(ast.unparse(function.node), words)):
                    continue
                run = Hypothesis(project, min(steps, _FUNCTION_STEPS), question, numbers)
                task = run, module, function, owner, receivers, read
                if holds:
                    last.append(task)
                elif steps > 0:
                    run.on_call = reached.add
                    yield _run_alone(*task)
                    steps -= run.steps
        for task in last:
            if task[2].node not in reached:
                yield _run_alone(*task)


def _run_alone(
    run: Hypothesis,
    module: Module,
    function: Function,
    owner: Class | None,
    receivers: Receivers,
    read: set[str],
) -> Hypothesis:
    run.frames.append(Frame(module, module.scope, "<module>"))
    args = unknown_arguments(run, function, owner, receivers)
    run.given = {tensor.storage for value in args for tensor in torch_model.tensors_in(value)}
    returned: list[Value] = []
    _guarded(run, lambda: returned.append(run.call_function(function, args, {}, function.node)))
    outlasting = [("", value) for value in (*returned, *args) if not _is_tensor(value)]
    run.end([*outlasting, *module.scope.names.items()], read)
    return run


def _attributes_read_in(opened: list[tuple[Project, Module]]) -> set[str]:
    """Attributes that functions read before they set them: objects are there for more than one program."""
    read: set[str] = set()
    for _, module in opened:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
                parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
                first: dict[str, int] = {}
                for part in parts:
                    if isinstance(part.ctx, ast.Store):
                        first[part.attr] = min(part.lineno, first.get(part.attr, part.lineno))
                updated = {part.target for part in ast.walk(node) if isinstance(part, ast.AugAssign)}
                loads = [part for part in parts if isinstance(part.ctx, ast.Load) or part in updated]
                read |= {part.attr for part in loads if part.lineno <= first.get(part.attr, part.lineno)}
    return read


def _names_read_in(opened: list[tuple[Project, Module]], reached: Collection[ast.AST] = ()) -> set[str]:
    """Names and attributes that functions of these files read: what they hold may be looked at again. Functions that a
    program has reached have done that."""
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for _, module in opened
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node not in reached
        if getattr(node, "name", "") != "__init__"
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load)
    }


def _guarded(run: Hypothesis, task: object) -> None:
    """Runs as far as it goes. Where that is not the end, not everything is known of what was left behind."""
    try:
        task()  # type: ignore[operator]
    except (OutOfSteps, RecursionError):
        run.unclear |= bool(run.left)


def _is_tensor(value: Value) -> bool:
    return any(isinstance(option, Tensor) for option in options(value))


def _holds(function: Function, question: Question) -> bool:
    node = function.node
    same = os.path.abspath(function.module.path) == os.path.abspath(question.file)
    return same and node.lineno <= question.line <= (node.end_lineno or node.lineno)


def _together(facts: list[WriteFacts]) -> WriteFacts:
    """What several runs have shown."""
    reached = [one for one in facts if one.reached]
    return WriteFacts(
        bool(reached),
        any(one.unclear for one in facts),
        any(one.from_caller for one in facts),
        tuple(dict.fromkeys(holder for one in facts for holder in one.held)),
        tuple(dict.fromkeys(read for one in facts for read in one.reads)),
        _agreed([one.parameter for one in reached]),
        _agreed([one.leaf for one in reached]),
        _agreed([one.requires_grad for one in reached]),
    )


def _agreed(answers: list[Answer]) -> Answer:
    return answers[0] if len(set(answers)) == 1 else "unknown"


# -- what leads to the statement --------------------------------------------------------------------------------------


def _leading_words(texts: Mapping[str, str], home: str, line: int) -> set[str]:
    """Names of functions and classes by which a call may come to the statement, through whatever others call them."""
    blocks = [block for text in texts.values() for block in _blocks(text)]
    words = {name for name, first, last, _ in _blocks(texts[home]) if first <= line <= last} - _CALLED_BY_OTHERS
    size = 0
    while len(words) > size:
        size = len(words)
        words |= {name for name, _, _, text in blocks if name not in words and _mentions(text, words)}
        words -= _CALLED_BY_OTHERS
    return words


def _blocks(text: str) -> list[tuple[str, int, int, str]]:
    """The functions and classes of a text: name, first and last line, text."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    lines = text.split("\n")
    return [
        (node.name, node.lineno, node.end_lineno or node.lineno, "\n".join(lines[node.lineno - 1 : node.end_lineno]))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def _mentions(text: str, words: set[str]) -> bool:
    return bool(words) and re.search(rf"\b(?:{'|'.join(map(re.escape, words))})\b", text) is not None
