"""Analyses one file: runs its top level as a program, then each function not reached, with unknown arguments."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from outplace.knowledge.silent_rules.lost import PARAMETRIZED_WEIGHT_WRITE
from outplace.model import Finding
from outplace.source import hypotheses, torch_model
from outplace.source.annotations import says_tensor
from outplace.source.candidates import Candidates
from outplace.source.findings import finding_for
from outplace.source.frames import Frame, OutOfSteps
from outplace.source.graph import Group, Hit, Storage
from outplace.source.heuristics import says_inference_only
from outplace.source.holders import settled
from outplace.source.interpreter import Interpreter, Numbers
from outplace.source.project import Module, OutOfTime, Project
from outplace.source.trained_functions import Functions, Trained, each_once
from outplace.source.values import Class, Const, Function, Instance, Plain, Tensor, Unknown, Value

PROGRAM_STEPS = 40_000
FUNCTION_STEPS = 800
INIT_STEPS = 600


class Receiver(NamedTuple):
    """An object of a class, its attributes as `__init__` left them, and the functions that this called."""

    made: Instance
    names: dict[str, Value]
    called: set[ast.AST]


Receivers = dict[Class, Receiver]


@dataclass(frozen=True)
class Unparsed:
    """Why a file could not be analysed; `line` where that is known."""

    message: str
    line: int | None = None


@dataclass(frozen=True)
class Checked:
    """The result for one file. A program's findings may stand in other files of its project."""

    findings: list[Finding]
    error: Unparsed | None
    dependencies: tuple[str, ...]
    ran_out: bool = False
    """Did it take too long, so that the rest of the file was left out?"""
    cut: tuple[tuple[str, int], ...] = ()
    """The functions, by name and line, that were too long to follow to their end."""

    def all_findings(self) -> list[Finding]:
        """The findings, if the whole file was analysed: a repair must not take what was left out for repaired."""
        if self.ran_out:
            raise OutOfTime(self.findings)
        return self.findings


def check_file(path: str, source: str, project: Project) -> Checked:
    """Finds the in-place bugs of one file, those as well that depend on what callers hand in (see `hypotheses`)."""
    if "torch" not in source:
        return Checked([], None, ())
    candidates = Candidates(source)
    if not candidates.worth_checking():
        return Checked([], None, ())
    collecting = gc.isenabled()
    gc.disable()  # nothing here lives in cycles for long, and looking for them takes a third of the time
    try:
        return _check(path, source, project, candidates)
    finally:
        if collecting:
            gc.enable()


def _check(path: str, source: str, project: Project, candidates: Candidates) -> Checked:
    first_read = len(project.read)
    try:
        module = project.open(path, source)
    except SyntaxError as error:
        return Checked([], Unparsed(f"SyntaxError: {error.msg}", error.lineno or 1), ())
    except (ValueError, RecursionError, MemoryError) as error:
        return Checked([], Unparsed(f"{type(error).__name__}: {error}"), ())
    hits = _run(module, project, candidates)
    dependencies = tuple(dict.fromkeys(project.read[first_read:]))
    return Checked(_findings(hits, module), None, dependencies, project.ran_out, tuple(project.cut))


def _findings(hits: list[Hit], module: Module) -> list[Finding]:
    """Each bug once, the surest way it was found; a program shows bugs in the other files of its project too."""
    found: dict[tuple[str, str, int, int], Finding] = {}
    surest: dict[tuple[str, int], Hit] = {}
    every: dict[tuple[str, int], list[Hit]] = {}
    for hit in _with_groups(hits):  # a loop meets the same write many times
        place = (hit.kind, id(hit.place.node))
        every.setdefault(place, []).append(hit)
        if place not in surest or (hit.certain and not surest[place].certain):
            surest[place] = hit
    for place, hit in surest.items():
        if hit.place.module is module or _is_own(hit.place.module):
            finding = finding_for(hit, every[place])
            key = (finding.kind, finding.site.file, finding.site.line, finding.site.column)
            if key not in found or finding.severity == "error":
                found.setdefault(key, finding)
                if found[key].severity == "warning":
                    found[key] = finding
    return sorted(found.values(), key=lambda found: (found.site.file, found.site.line, found.site.column, found.code))


def _with_groups(hits: list[Hit]) -> list[Hit]:
    """Where a statement is run on one of several values, it is wrong for certain if it is for each of them."""
    wrong: dict[tuple[str, int, int], set[int]] = {}
    for hit in hits:
        for number, place, _ in _group(hit):
            wrong.setdefault((hit.kind, id(hit.place.node), number), set()).add(place)
    return [
        hit
        if all(len(wrong[hit.kind, id(hit.place.node), number]) >= count for number, _, count in _group(hit))
        else replace(hit, certain=False)
        for hit in hits
    ]


def _group(hit: Hit) -> Group:
    return (*hit.write.group, *hit.group) if hit.write is not None else hit.group


def _is_own(module: Module) -> bool:
    return not {"site-packages", "dist-packages"}.intersection(os.path.abspath(module.path).split(os.sep))


def _run(module: Module, project: Project, candidates: Candidates) -> list[Hit]:
    """The program first; what it has not reached is then run function by function."""
    reached: set[ast.AST] = set()
    program = Interpreter(project, PROGRAM_STEPS)
    program.on_call = reached.add
    _guarded(lambda: program.run_module(module), project, ("the program", 1))
    hits = [*program.tape.hits, *settled(program)]
    sure, assumed = _Alone(module, project, candidates, False), _Alone(module, project, candidates, True)
    functions = functions_of(module)
    trained = Trained(functions)
    for function, owner in _worth_running(candidates, functions, trained):
        if project.is_out_of_time():
            break
        judged = trained.holds(function, owner) and not _is_for_inference(function)
        shown = function.node in reached and program.tape.went_backward and function.node not in program.lost_in
        if not judged and not shown and trained.trains(function):
            steps = assumed.run(function, owner, trains=True)
            hits.extend(hypotheses.only_assumed([hit for hit in steps if hit.kind == "stepped"], hits))
        if function.node in reached:
            if judged and not shown:  # the program shows how it is called, but not all of how it is trained
                hits.extend(hypotheses.only_assumed(assumed.run(function, owner), hits))
        elif not judged:
            hits.extend(sure.run(function, owner))
        elif guesses := assumed.run(function, owner):  # with nothing assumed there is less to find
            found = sure.run(function, owner)
            hits.extend([*found, *hypotheses.only_assumed(guesses, found)])
    return hits


class _Alone:
    """Runs single functions of a module, with or without hypotheses about what they are given."""

    def __init__(self, module: Module, project: Project, candidates: Candidates, assumes: bool) -> None:
        self._module, self._project, self._candidates, self._assumes = module, project, candidates, assumes
        self._receivers: Receivers = {}
        self._numbers: Numbers = {}

    def run(self, function: Function, owner: Class | None, trains: bool = False) -> list[Hit]:
        """What is wrong with a function, run by itself; `trains` says that it runs the backwards itself."""
        alone = Interpreter(self._project, FUNCTION_STEPS, self._numbers, self._assumes)
        alone.frames.append(Frame(self._module, self._module.scope, "<module>"))
        called = _name(function) != "forward" and self._candidates.is_called(_name(function))
        args = unknown_arguments(alone, function, owner, self._receivers, called)
        built = list(alone.tape.hits)
        _guarded(lambda: _run_alone(alone, function, args, trains), self._project, _place(function))
        found = [*alone.tape.hits, *settled(alone)]
        if owner in self._receivers and function.node in self._receivers[owner].called:
            # `__init__` calls it perhaps before it registers what computes a weight; here the object is finished
            found = [hit for hit in found if hit.detail != PARAMETRIZED_WEIGHT_WRITE.name or hit in built]
        return _with_doubts(found, function, args, self._numbers)


def _guarded(run: Callable[[], object], project: Project, place: tuple[str, int]) -> None:
    """Runs as far as it goes; what is too large or too deep is left where it stands, and noted."""
    try:
        run()
    except (OutOfSteps, RecursionError):
        project.cut[place] = None


def _place(function: Function) -> tuple[str, int]:
    return f"`{function.name}`", _lines(function.node)[0]


def _worth_running(candidates: Candidates, functions: Functions, trained: Trained) -> Functions:
    """Those that write or train, or run modules that may have been built to write.

    And those that call one of these and that somebody trains through: they may keep what it overwrites.
    """
    chosen, waiting = set[tuple[ast.AST, Class | None]](), set[str]()
    callers: dict[str, Functions] = {}
    for function, owner in each_once(functions):
        if _may_write(candidates, function, owner) or trained.trains(function):
            chosen.add((function.node, owner))
            if trained.holds(function, function.owner):
                waiting.add(_name(function))
        elif trained.holds(function, owner):
            for name in candidates.called(*_lines(function.node)):
                callers.setdefault(name, []).append((function, owner))
    while waiting:
        name = waiting.pop()
        for function, owner in callers.pop(name, ()) if not name.startswith("__") else ():
            chosen.add((function.node, owner))
            waiting.add(_name(function))
    return [(function, owner) for function, owner in functions if (function.node, owner) in chosen]


def _may_write(candidates: Candidates, function: Function, owner: Class | None) -> bool:
    """Does it write or train by itself, or run modules that may have been built to write?"""
    if owner is not None and (owner.torch_base() or "").startswith("torch.autograd"):
        return False  # a custom Function's forward and backward run without grad
    if candidates.writes(*_lines(function.node)):
        return _name(function) != "__init__" or candidates.handles_tensors(*_lines(function.node))
    if owner is None or not _name(function).startswith("forward"):
        return False
    return candidates.builds_writers(*_lines(owner.node))


def _name(function: Function) -> str:
    return getattr(function.node, "name", "")


def _lines(node: ast.AST) -> tuple[int, int]:
    """The first and the last; a class that a call has made, such as a named tuple, has none."""
    return getattr(node, "lineno", 1), getattr(node, "end_lineno", None) or 1


def functions_of(module: Module) -> Functions:
    """The functions and methods that the file's top level has defined."""
    found: Functions = []
    for value in list(module.scope.names.values()):
        if isinstance(value, Function) and value.module is module:
            found.append((value, None))
        elif isinstance(value, Class) and value.module is module:
            found.extend((item, value) for item in value.names.values() if isinstance(item, Function))
    return found


def _run_alone(interpreter: Interpreter, function: Function, args: list[Value], trains: bool) -> None:
    """A function with unknown arguments; what it returns is taken to be trained on, unless it trains by itself."""
    if interpreter.assumes:
        alone = lambda: interpreter.call_function(function, args, {}, function.node)  # noqa: E731
        _guarded(alone, interpreter.project, _place(function))
        if trains or any(event.kind == "step" for event in interpreter.tape.events):
            return
        interpreter.tape.path = interpreter.tape.group = ()
        interpreter.tape.backward(interpreter.recorded)
        return
    returned = interpreter.call_function(function, args, {}, function.node)
    nodes = [node for tensor in torch_model.tensors_in(returned) if (node := torch_model.node_of(tensor)) is not None]
    interpreter.tape.backward([node for node in nodes if node not in interpreter.tape.losses])  # those are only shown


def unknown_arguments(
    interpreter: Interpreter,
    function: Function,
    owner: Class | None,
    receivers: Receivers,
    called: bool = True,
) -> list[Value]:
    """What a function is given when it is run alone; `called` says that its own file calls it."""
    args: list[Value] = []
    if owner is not None and function.kind != "staticmethod":
        receiver = _bare if _name(function) == "__init__" else partial(_receiver, receivers=receivers)
        args.append(owner if function.kind == "classmethod" else receiver(interpreter, owner))
    if interpreter.assumes:
        return [*args, *hypotheses.arguments(interpreter, function, len(args), called)]
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    args.extend(_unknown_argument(interpreter, argument) for argument in parameters[len(args) :])
    return args


def _with_doubts(hits: list[Hit], function: Function, args: list[Value], numbers: Numbers) -> list[Hit]:
    """A caller that gives a state, and an option that changes it, may be generating: a cache is not trained through."""
    if not hits:
        return hits
    if _is_for_inference(function):
        return [replace(hit, certain=False) for hit in hits]
    defaults = function.node.args.defaults
    optional = zip(args[len(args) - len(defaults) :], defaults, strict=False)
    left_out = {id(value) for value, default in optional if isinstance(default, ast.Constant) and not default.value}
    asked_for = {(n, int(asked == "is none")) for (value, asked), (_, n) in numbers.items() if value in left_out}
    handed_in = {id(value.storage) for value in args if isinstance(value, Tensor)}
    doubtful = {
        (hit.kind, id(hit.place.node))
        for hit in hits
        if hit.write and hit.save and id(hit.save.storage) in handed_in and asked_for.intersection(hit.write.path)
    }
    return [replace(hit, certain=False) if (hit.kind, id(hit.place.node)) in doubtful else hit for hit in hits]


def _is_for_inference(function: Function) -> bool:
    """Does its docstring, or a comment before its first statement, say that it is not trained through?"""
    node = function.node
    if isinstance(node, ast.Lambda):
        return False
    first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
    said = "\n".join(function.module.lines[node.lineno - 1 : max(node.lineno, first.lineno - 1)])
    return says_inference_only(said)


def _receiver(interpreter: Interpreter, owner: Class, receivers: Receivers) -> Value:
    """`self`: made once by the class's own `__init__`, with unknown arguments."""
    if owner in receivers:
        result, names, _ = receivers[owner]
        result.names.clear()  # what another method has set is not known to be set now
        result.names.update(names)
        return result
    result, called = _bare(interpreter, owner), set[ast.AST]()
    init = owner.find("__init__")
    if isinstance(init, Function):
        others, interpreter.on_call = interpreter.on_call, called.add
        unknown = _constructor_arguments(interpreter, init)
        _guarded(
            lambda: interpreter.within(
                INIT_STEPS, lambda: interpreter.call_function(init, [result, *unknown], {}, init.node)
            ),
            interpreter.project,
            _place(init),
        )
        interpreter.on_call = others
    result.names["training"] = Const(True) if interpreter.assumes else Plain()
    receivers[owner] = Receiver(result, dict(result.names), called)
    return result


def _constructor_arguments(interpreter: Interpreter, init: Function) -> list[Value]:
    if interpreter.assumes:
        return hypotheses.constructor_arguments(interpreter, init)
    count = len(init.node.args.posonlyargs) + len(init.node.args.args) - 1
    return [Unknown() for _ in range(count)]


def _bare(interpreter: Interpreter, owner: Class) -> Instance:
    """An object as its `__init__` is given it."""
    instance = Instance(owner)
    base = owner.torch_base()
    if base is not None:
        instance.names.update(torch_model.own_state(interpreter, base))
    return instance


def _unknown_argument(interpreter: Interpreter, argument: ast.arg) -> Value:
    says = says_tensor(argument.annotation)
    if says is False:
        return Unknown()
    tensor = Tensor(Storage(), None, known=says is True)
    tensor.since = interpreter.tape.tick()
    return tensor
