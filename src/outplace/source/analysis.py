"""What is run in a file: its top level as a program, then each function that nobody has run, with unknown arguments."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from outplace.model import Finding
from outplace.source import torch_model
from outplace.source.interpreter import Frame, Interpreter, OutOfSteps
from outplace.source.project import Module, Project
from outplace.source.rules import finding_for
from outplace.source.tape import Hit, Storage
from outplace.source.values import PLAIN, UNKNOWN, Class, Function, Instance, Tensor, Value

_MAY_WRITE = re.compile(
    r"[^\W\d]\w*_\(|[-+*/%@&|^]=|\]\s*=[^=]|\binplace\s*=|\bout\s*=|\.step\(|\.data\b|ReLU\w*\(\s*True|load_state_dict"
)


@dataclass(frozen=True)
class Checked:
    """The result for one file."""

    findings: list[Finding]
    error: str | None
    dependencies: tuple[str, ...]


def check_file(path: str, source: str, project: Project) -> Checked:
    """Finds the in-place bugs of one file."""
    if "torch" not in source or not _MAY_WRITE.search(source):
        return Checked([], None, ())
    first_read = len(project.read)
    try:
        module = project.open(path, source)
    except SyntaxError as error:
        return Checked([], f"SyntaxError: {error.msg} (line {error.lineno or 1})", ())
    except (ValueError, RecursionError, MemoryError) as error:
        return Checked([], f"{type(error).__name__}: {error}", ())
    hits = _run(module, project)
    findings = {}
    for hit in hits:
        if hit.place.module is module:
            finding = finding_for(hit)
            key = (finding.kind, finding.site.line, finding.site.column)
            known = findings.get(key)
            if known is None or (known.severity == "warning" and finding.severity == "error"):
                findings[key] = finding
    ordered = sorted(findings.values(), key=lambda found: (found.site.line, found.site.column, found.code))
    return Checked(ordered, None, tuple(dict.fromkeys(project.read[first_read:])))


def _run(module: Module, project: Project) -> list[Hit]:
    """The program first; what it has not reached is then run function by function."""
    reached: set[ast.AST] = set()
    program = Interpreter(project)
    program.on_call = reached.add
    _guarded(program, lambda: program.run_module(module))
    hits = list(program.tape.hits)
    for function, owner in _functions(module):
        if function.node in reached or not _may_write(module, function.node):
            continue
        alone = Interpreter(project)
        alone.frames.append(Frame(module, module.scope, "<module>"))
        _guarded(alone, lambda alone=alone, function=function, owner=owner: _run_alone(alone, function, owner))
        hits.extend(alone.tape.hits)
    return hits


def _guarded(interpreter: Interpreter, run: object) -> None:
    """Runs as far as it goes; a program too large or too strange is left where it stands."""
    try:
        run()  # type: ignore[operator]
    except (OutOfSteps, RecursionError):
        pass


def _may_write(module: Module, node: ast.AST) -> bool:
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
    lines = module.lines[first - 1 : last]
    return _MAY_WRITE.search("\n".join(lines)) is not None


def _functions(module: Module) -> list[tuple[Function, Class | None]]:
    """The functions and methods that the file's top level has defined."""
    found: list[tuple[Function, Class | None]] = []
    for value in list(module.scope.names.values()):
        if isinstance(value, Function) and value.module is module:
            found.append((value, None))
        elif isinstance(value, Class) and value.module is module:
            found.extend((item, value) for item in value.names.values() if isinstance(item, Function))
    return found


def _run_alone(interpreter: Interpreter, function: Function, owner: Class | None) -> None:
    """A function with unknown arguments; what it returns is taken to be trained on."""
    receiver = _receiver(interpreter, owner) if owner is not None and function.kind not in ("staticmethod", "classmethod") else None
    spec = function.node.args
    given = [*spec.posonlyargs, *spec.args]
    args: list[Value] = [] if receiver is None else [receiver]
    args.extend(_unknown_argument(interpreter, argument) for argument in given[len(args) :])
    if function.kind == "classmethod" and owner is not None:
        args = [owner, *args[1:]]
    if owner is not None and _is_function_forward(owner, function):
        return  # a custom Function's forward and backward run without grad
    returned = interpreter.call_function(function, args, {}, function.node)
    roots = [node for tensor in torch_model.tensors_in(returned) if (node := torch_model.node_of(tensor)) is not None]
    interpreter.tape.backward(roots)


def _is_function_forward(owner: Class, function: Function) -> bool:
    return (owner.torch_base() or "").startswith("torch.autograd")


def _receiver(interpreter: Interpreter, owner: Class) -> Value:
    """`self`: made by the class's own `__init__`, with unknown arguments."""
    made = Instance(owner)
    base = owner.torch_base()
    if base is not None:
        made.names["training"] = PLAIN
        made.names.update(torch_model.own_state(interpreter, base, owner.node))
    init = owner.find("__init__")
    if isinstance(init, Function):
        unknown: list[Value] = [UNKNOWN] * (len(init.node.args.posonlyargs) + len(init.node.args.args) - 1)
        interpreter.call_function(init, [made, *unknown], {}, init.node)
    made.names["training"] = PLAIN
    return made


def _unknown_argument(interpreter: Interpreter, argument: ast.arg) -> Value:
    annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
    if re.search(r"\b(int|float|str|bool|List|Dict|list|dict|ndarray)\b", annotation) and "Tensor" not in annotation:
        return UNKNOWN
    made = Tensor(Storage(), None, known="Tensor" in annotation)
    made.since = interpreter.tape.tick()
    return made
