"""Analyses one file: runs its top level as a program, then each other function, with unknown arguments."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

from outplace.files.parsable import first_part
from outplace.knowledge.silent_rules.lost import PARAMETRIZED_WEIGHT_WRITE
from outplace.model import Finding
from outplace.source import hypotheses, torch_model
from outplace.source.annotations import says_tensor
from outplace.source.candidates import Candidates
from outplace.source.findings import finding_for
from outplace.source.frames import Frame, OutOfSteps
from outplace.source.graph import Group, Hit, Storage, clock
from outplace.source.heuristics import says_inference_only
from outplace.source.holders import settled
from outplace.source.interpreter import Interpreter, Numbers
from outplace.source.project import Module, OutOfTime, Project
from outplace.source.room import with_room_for_calls
from outplace.source.tape import Tape
from outplace.source.trained_functions import Functions, Trained, each_once, used_without_grad
from outplace.source.values import Args, Class, Const, Function, Instance, Plain, Tensor, Unknown, Value

PROGRAM_STEPS = 40_000
FUNCTION_STEPS = 800
INIT_STEPS = 600


class Receiver(NamedTuple):
    """An object of a class, its attributes after `__init__`, and the functions that `__init__` called."""

    made: Instance
    names: dict[str, Value]
    called: set[ast.AST]


Receivers = dict[Class, Receiver]


@dataclass(frozen=True)
class Unparsed:
    """Why a file could not be analysed, and the line if it is known."""

    message: str
    line: int | None = None


@dataclass(frozen=True)
class Checked:
    """The result for one file. A program can have findings in other files of its project."""

    findings: list[Finding]
    error: Unparsed | None
    dependencies: tuple[str, ...]
    ran_out: bool = False
    """True if the time was over before the whole file was analysed."""
    cut: tuple[tuple[str, int], ...] = ()
    """The functions that were too long to follow to their end, each with its name and line."""

    def all_findings(self) -> list[Finding]:
        """Returns the findings. Raises if the file was not analysed to its end: bugs in the rest are not fixed."""
        if self.ran_out:
            raise OutOfTime(self.findings)
        return self.findings


def check_file(path: str, source: str, project: Project) -> Checked:
    """Finds the in-place bugs of one file, including those that depend on what callers pass (see `hypotheses`)."""
    if "torch" not in source:
        return Checked([], None, ())
    part = first_part(source)
    checked = _check_part(path, part, project)
    return checked if part is source else replace(checked, ran_out=True)


def _check_part(path: str, source: str, project: Project) -> Checked:
    candidates = Candidates(source)
    if not candidates.worth_checking():
        return Checked([], None, ())
    collecting = gc.isenabled()
    gc.disable()  # few objects here form cycles, and the search for cycles would take a third of the time
    try:
        return _check(path, source, project, candidates)
    finally:
        if collecting:
            gc.enable()


@with_room_for_calls
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
    """Returns each bug once, from its most certain hit. Other files of the project can have findings, too."""
    found: dict[tuple[str, str, int, int], Finding] = {}
    surest: dict[tuple[str, int], Hit] = {}
    every: dict[tuple[str, int], list[Hit]] = {}
    for hit in _certain_for_each_value(hits):  # a loop hits the same write many times
        place = (hit.kind, id(hit.place.node))
        every.setdefault(place, []).append(hit)
        if place not in surest or (hit.certain and not surest[place].certain):
            surest[place] = hit
    for place, hit in surest.items():
        if hit.place.module is module or _is_project_file(hit.place.module):
            finding = finding_for(hit, every[place])
            key = (finding.kind, finding.site.file, finding.site.line, finding.site.column)
            if key not in found or finding.severity == "error":
                found.setdefault(key, finding)
                if found[key].severity == "warning":
                    found[key] = finding
    return sorted(found.values(), key=lambda found: (found.site.file, found.site.line, found.site.column, found.code))


def _certain_for_each_value(hits: list[Hit]) -> list[Hit]:
    """Makes a hit of a statement that was run on several values uncertain, unless it is a hit for each value.

    A shape that does not fit is then no hit: the program has tested before which of the shapes it is.
    """
    wrong: dict[tuple[str, int, int], set[int]] = {}
    for hit in hits:
        for number, place, _ in _group(hit):
            wrong.setdefault((hit.kind, id(hit.place.node), number), set()).add(place)
    found = []
    for hit in hits:
        if all(len(wrong[hit.kind, id(hit.place.node), number]) >= count for number, _, count in _group(hit)):
            found.append(hit)
        elif not hit.detail.startswith("shape"):
            found.append(replace(hit, certain=False))
    return found


def _group(hit: Hit) -> Group:
    return (*hit.write.group, *hit.group) if hit.write is not None else hit.group


def _is_project_file(module: Module) -> bool:
    return not {"site-packages", "dist-packages"}.intersection(os.path.abspath(module.path).split(os.sep))


def _run(module: Module, project: Project, candidates: Candidates) -> list[Hit]:
    """Runs the program, then each function that the program has not reached."""
    reached: set[ast.AST] = set()
    program = Interpreter(project, PROGRAM_STEPS)
    program.on_call = reached.add
    _run_within_limits(lambda: program.run_module(module), program, ("the program", 1))
    hits = [*program.tape.hits, *settled(program)]
    sure, assumed = _FunctionRuns(module, project, candidates, False), _FunctionRuns(module, project, candidates, True)
    functions = functions_of(module)
    trained = Trained(functions)
    to_run = _FunctionsToRun(candidates, functions, trained)
    for function, owner in to_run:
        if project.is_out_of_time():
            break
        assumed_trained = trained.holds(function, owner) and not _is_for_inference(function)
        trained_here = function.node in reached and program.tape.went_backward and function.node not in program.lost_in
        if not assumed_trained and not trained_here and trained.trains(function):
            steps = assumed.run(function, owner, trains=True)
            hits.extend(hypotheses.only_assumed([hit for hit in steps if hit.kind == "stepped"], hits))
        if function.node in reached:
            # the program shows how it is called, but not all of how it is trained
            if assumed_trained and not trained_here:
                hits.extend(hypotheses.only_assumed(assumed.run(function, owner), hits))
        elif not assumed_trained:
            hits.extend(sure.run(function, owner))
        elif guesses := assumed.run(function, owner):  # with no assumptions there is less to find
            found = sure.run(function, owner)
            hits.extend([*found, *hypotheses.only_assumed(guesses, found)])
        hits.extend(assumed.writes_to_weights(function, owner, hits, assumed_trained))
        if function not in assumed.write_only_their_own:
            to_run.add_callers(function)
    return hits


class _FunctionRuns:
    """Runs single functions of a module, with or without hypotheses about their arguments."""

    def __init__(self, module: Module, project: Project, candidates: Candidates, assumes: bool) -> None:
        self._module, self._project, self._candidates, self._assumes = module, project, candidates, assumes
        self._receivers: Receivers = {}
        self._numbers: Numbers = {}
        self.write_only_their_own: set[Function] = set()
        """The functions that were run, and have written only what they had made themselves."""

    def run(self, function: Function, owner: Class | None, trains: bool = False) -> list[Hit]:
        """Runs one function and returns its hits. `trains` is True if the function runs the backwards itself."""
        alone = Interpreter(self._project, FUNCTION_STEPS, self._numbers, self._assumes)
        alone.frames.append(Frame(self._module, self._module.scope, "<module>"))
        called = _name(function) != "forward" and self._candidates.is_called(_name(function))
        args = unknown_arguments(alone, function, owner, self._receivers, called)
        built = list(alone.tape.hits)
        alone.tape.began, alone.tape.given_writes = next(clock), set()
        _run_within_limits(lambda: _run_alone(alone, function, args, trains), alone, _name_and_line(function))
        if self._writes_only_its_own(function, alone.tape):
            self.write_only_their_own.add(function)
        found = [*alone.tape.hits, *settled(alone)]
        if owner in self._receivers and function.node in self._receivers[owner].called:
            # `__init__` may call it before it registers what computes the weight; here the object is complete
            found = [hit for hit in found if hit.detail != PARAMETRIZED_WEIGHT_WRITE.name or hit in built]
        return _with_doubts(found, function, args, self._numbers)

    def writes_to_weights(self, function: Function, owner: Class | None, found: list[Hit], was_run: bool) -> list[Hit]:
        """Writes to weights of networks that are handed in. They raise also where nothing is trained through."""
        if was_run or not self._candidates.reads_weights(*_lines(function.node)):
            return []
        leaves = [hit for hit in self.run(function, owner) if hit.kind in hypotheses.OF_LEAVES]
        if not leaves or _name(function) in used_without_grad(self._module):
            return []
        return hypotheses.only_assumed(leaves, found)

    def _writes_only_its_own(self, function: Function, tape: Tape) -> bool:
        """True if the run has shown all that the text writes, and it was all made in the function."""
        if tape.given_writes or tape.events or _name_and_line(function) in self._project.cut:
            return False
        seen = {line for node in tape.own_writes for line in range(node.lineno, (node.end_lineno or 0) + 1)}  # type: ignore[attr-defined]
        return seen.issuperset(self._candidates.lines_of_writes(*_lines(function.node)))


def _run_within_limits(run: Callable[[], object], interpreter: Interpreter, place: tuple[str, int]) -> None:
    """Runs it as far as possible. If it is too long or too deep, it is cut off, and `project.cut` says so."""
    try:
        run()
        is_cut = interpreter.tape.is_cut
    except (OutOfSteps, RecursionError):
        is_cut = True
    if is_cut:
        interpreter.project.cut[place] = None


def _name_and_line(function: Function) -> tuple[str, int]:
    return f"`{function.name}`", _lines(function.node)[0]


class _FunctionsToRun:
    """The functions that write or train, or that run modules which may have been built to write.

    While they are run, `add_callers` adds those that call one of them and are trained through: they may save what the
    callee overwrites.
    """

    def __init__(self, candidates: Candidates, functions: Functions, trained: Trained) -> None:
        self._candidates, self._trained = candidates, trained
        chosen, self._others = set[tuple[ast.AST, Class | None]](), list[tuple[Function, Class | None]]()
        for function, owner in each_once(functions):
            if _may_write(candidates, function, owner) or trained.trains(function):
                chosen.add((function.node, owner))
            else:
                self._others.append((function, owner))
        self._waiting = [pair for pair in functions if (pair[0].node, pair[1]) in chosen]
        self._functions, self._added = functions, set[tuple[ast.AST, Class | None]]()

    def __iter__(self) -> Iterator[tuple[Function, Class | None]]:
        yield from self._waiting  # it grows

    def add_callers(self, function: Function) -> None:
        """Adds the functions that call this one, once."""
        name = _name(function)
        if name.startswith("__") or not self._trained.holds(function, function.owner):
            return
        callers = {(f.node, owner) for f, owner in self._callers.pop(name, ()) if self._trained.holds(f, owner)}
        callers -= self._added
        self._added |= callers
        self._waiting += [pair for pair in self._functions if (pair[0].node, pair[1]) in callers] if callers else []

    @cached_property
    def _callers(self) -> dict[str, Functions]:
        found: dict[str, Functions] = {}
        for function, owner in self._others:
            for name in self._candidates.called(*_lines(function.node)):
                found.setdefault(name, []).append((function, owner))
        return found


def _may_write(candidates: Candidates, function: Function, owner: Class | None) -> bool:
    """True if the function itself may write or train, or runs modules which may have been built to write."""
    if owner is not None and (owner.torch_base() or "").startswith("torch.autograd"):
        return False  # the forward and backward of a custom Function run without grad
    if candidates.writes(*_lines(function.node)):
        return _name(function) != "__init__" or candidates.handles_tensors(*_lines(function.node))
    if owner is None or not _name(function).startswith("forward"):
        return False
    return candidates.builds_writers(*_lines(owner.node))


def _name(function: Function) -> str:
    return getattr(function.node, "name", "")


def _lines(node: ast.AST) -> tuple[int, int]:
    """Returns the first and the last line. A class that a call has made, such as a named tuple, has none."""
    return getattr(node, "lineno", 1), getattr(node, "end_lineno", None) or 1


def functions_of(module: Module) -> Functions:
    """Returns the functions and methods that the top level of the file has defined."""
    found: Functions = []
    for value in list(module.scope.names.values()):
        if isinstance(value, Function) and value.module is module:
            found.append((value, None))
        elif isinstance(value, Class) and value.module is module:
            found.extend((item, value) for item in value.names.values() if isinstance(item, Function))
    return found


def _run_alone(interpreter: Interpreter, function: Function, args: Args, trains: bool) -> None:
    """Runs a function, and a backward from its results, unless the function trains by itself."""
    if interpreter.assumes:
        alone = lambda: interpreter.call_function(function, args, {}, function.node)  # noqa: E731
        _run_within_limits(alone, interpreter, _name_and_line(function))
        if trains or any(event.kind == "step" for event in interpreter.tape.events):
            return
        interpreter.tape.path = interpreter.tape.group = ()
        interpreter.tape.backward(interpreter.recorded)
        return
    returned = interpreter.call_function(function, args, {}, function.node)
    nodes = [node for tensor in torch_model.tensors_in(returned) if (node := torch_model.node_of(tensor)) is not None]
    # losses are only returned for logging
    interpreter.tape.backward([node for node in nodes if node not in interpreter.tape.losses])


def unknown_arguments(
    interpreter: Interpreter,
    function: Function,
    owner: Class | None,
    receivers: Receivers,
    called: bool = True,
) -> list[Value]:
    """Returns the arguments for a function that is run alone. `called` is True if its own file calls it."""
    args: Args = []
    if owner is not None and function.kind != "staticmethod":
        receiver = _bare if _name(function) == "__init__" else partial(_receiver, receivers=receivers)
        args.append(owner if function.kind == "classmethod" else receiver(interpreter, owner))
    if interpreter.assumes:
        return [*args, *hypotheses.arguments(interpreter, function, len(args), called)]
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    args.extend(_unknown_argument(interpreter, argument) for argument in parameters[len(args) :])
    return args


def _with_doubts(hits: list[Hit], function: Function, args: Args, numbers: Numbers) -> list[Hit]:
    """Makes hits uncertain if the caller may be generating: it passes a state, and an option that changes the state."""
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
    """True if its docstring, or a comment before its first statement, says that it is for inference only."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return False
    first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
    introduction = "\n".join(function.module.lines[node.lineno - 1 : max(node.lineno, first.lineno - 1)])
    return says_inference_only(introduction)


def _receiver(interpreter: Interpreter, owner: Class, receivers: Receivers) -> Value:
    """Returns `self`, made once by the `__init__` of the class, with unknown arguments."""
    if owner in receivers:
        result, names, _ = receivers[owner]
        result.names.clear()  # what another method has set is not known to be set now
        result.names.update(names)
        return result
    result, called = _bare(interpreter, owner), set[ast.AST]()
    init = owner.find("__init__")
    if isinstance(init, Function):
        on_call, interpreter.on_call = interpreter.on_call, called.add
        unknown = _constructor_arguments(interpreter, init)
        _run_within_limits(
            lambda: interpreter.within(
                INIT_STEPS, lambda: interpreter.call_function(init, [result, *unknown], {}, init.node)
            ),
            interpreter,
            _name_and_line(init),
        )
        interpreter.on_call = on_call
    result.names["training"] = Const(True) if interpreter.assumes else Plain()
    receivers[owner] = Receiver(result, dict(result.names), called)
    return result


def _constructor_arguments(interpreter: Interpreter, init: Function) -> list[Value]:
    if interpreter.assumes:
        return hypotheses.constructor_arguments(interpreter, init)
    count = len(init.node.args.posonlyargs) + len(init.node.args.args) - 1
    return [Unknown() for _ in range(count)]


def _bare(interpreter: Interpreter, owner: Class) -> Instance:
    """Returns an object in the state in which its `__init__` receives it."""
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
