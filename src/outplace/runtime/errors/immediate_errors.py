"""Diagnoses errors that the operation itself raises: leaves, views, inference tensors, out=, shapes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any

import torch

from outplace.knowledge.errors import Match
from outplace.knowledge.kinds import BY_NAME
from outplace.model import Diagnosis, Fix, Mutation, Site, Tensor
from outplace.repair.forms.augmented import SYMBOLS
from outplace.repair.syntax.code import whole_of
from outplace.runtime.errors.remedies import fixes_for
from outplace.runtime.instrument.syntax import hands_on
from outplace.runtime.locate import graph, names, sites
from outplace.runtime.locate.sites import Located
from outplace.runtime.locate.writers import place_of
from outplace.runtime.patches import tensor_writes
from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction, Step, Write
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.user_files import HANDING_ON, fields_of, own_files

_USER_CODE = re.compile(r'from user code:\s*((?:\s*File "[^"\n]+", line \d+, in .+\n?(?:    .*\n)?)+)')
_FILE_LINE = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')


def diagnose(error: BaseException, match: Match) -> list[Diagnosis]:
    """The diagnosis of an operation that PyTorch refused. The traceback leads to it."""
    own = innermost_own(error.__traceback__)
    if own is None:
        return []
    frame, place, library = own
    compiled = _in_compiled_code(str(error))
    written = _noted(place)
    if written is not None:
        log.current().writes.remove(written)  # it did not run
    located = compiled or sites.at_instruction(place, written.operation if written else None)
    if match.raised == "use":
        return [_written_before(error, match, frame, located)]
    operation = _operation(written, located)
    target = sites.target_node(located, operation)
    tensor = None
    if not compiled:
        target, tensor = _refused_operand(match.entry.kind, target, located, frame)
    owner = _owner_of_parameters(target, located, frame) if match.entry.kind == "expanded" else None
    if owner is not None:
        return [_expanded_parameter(error, match, located, owner, frame)]
    chain = tuple(sites.at_instruction(instruction).site for instruction in library)
    mutation = Mutation(operation, located.site, None, chain=chain)
    return [_diagnosis(error, match, located, mutation, target, tensor, frame)]


def innermost_own(traceback: TracebackType | None) -> tuple[FrameType, Instruction, list[Instruction]] | None:
    """The last frame of the user's code, its instruction, and the library frames below it."""
    found: tuple[FrameType, Instruction] | None = None
    library: list[Instruction] = []
    while traceback is not None:
        place = (traceback.tb_frame.f_code, traceback.tb_lasti)
        if own_files[place[0].co_filename] and not (found is not None and _hands_on(place)):
            found, library = (traceback.tb_frame, place), []
        else:
            library.append(place)
        traceback = traceback.tb_next
    return None if found is None else (*found, library)


def _hands_on(place: Instruction) -> bool:
    """Does a `__torch_function__` of the user only carry out the operation of other code here?"""
    statement = sites.at_instruction(place).statement if place[0].co_name in HANDING_ON else None
    if statement is None:
        return False
    around = sites.source_tree(place[0].co_filename).enclosing(sites.span_of(statement))
    functions = [node for node in around if isinstance(node, ast.FunctionDef)]
    return bool(functions) and hands_on(functions[-1], statement)


def by_library(error: BaseException, engine_frame: FrameType) -> bool:
    """Did a backward itself raise it, with no code of the user running inside it?"""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame is not engine_frame:
        traceback = traceback.tb_next
    while traceback is not None:
        if own_files[traceback.tb_frame.f_code.co_filename]:
            return False
        traceback = traceback.tb_next
    return True


def _noted(place: Instruction) -> Write | None:
    """The write that was recorded just before PyTorch refused it, if it came from this line."""
    noted = log.current().writes[-1:]
    if noted and noted[0].frames and noted[0].frames[-1][0] is place[0]:
        same_line = sites.at_instruction(noted[0].frames[-1]).site.line == sites.at_instruction(place).site.line
        return noted[0] if same_line else None
    return None


def _operation(written: Write | None, located: Located) -> str:
    if written is not None:
        return written.operation
    node = located.node
    if isinstance(node, ast.AugAssign):
        return f"__i{_OPERATORS.get(type(node.op), 'add')}__"
    if isinstance(node, ast.Assign):
        parts = [target.attr for target in node.targets if isinstance(target, ast.Attribute)]
        return f".{parts[0]} =" if parts else "__setitem__"
    if isinstance(node, ast.BinOp):
        return SYMBOLS[type(node.op)]
    if isinstance(node, ast.Call):
        if any(keyword.arg == "out" for keyword in node.keywords):
            return "out="
        return node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    return "in-place operation"


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip


def _in_compiled_code(message: str) -> Located | None:
    """Dynamo quotes the user's line in its message. The traceback only leads to the call of the compiled function."""
    block = _USER_CODE.search(message)
    lines = _FILE_LINE.findall(block[1]) if block else []
    if not lines:
        return None
    filename, line, function = lines[-1]
    return sites.at_line(filename, int(line), function)


# -- looking at the user's values, without running the user's code -----------------------------------------------------


def _value(node: ast.expr, frame: FrameType) -> torch.Tensor | None:
    found = _evaluate(node, frame)
    return found if isinstance(found, torch.Tensor) else None


def _evaluate(node: ast.expr, frame: FrameType) -> Any:
    """The value of a simple expression: names, attributes, items by constants. None if it is anything else."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        return _attribute(_evaluate(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        holder, key = _evaluate(node.value, frame), _evaluate(node.slice, frame)
        if type(holder) in (list, tuple, dict) and isinstance(key, int | str):
            try:
                return holder[key]
            except (KeyError, IndexError, TypeError):
                return None
        if isinstance(holder, torch.Tensor):
            return holder  # a part: the whole tensor answers the same about leaf and view
    return None


def _attribute(holder: Any, name: str) -> Any:
    if isinstance(holder, torch.Tensor):
        return holder.data if name == "data" else names.gradient_of(holder) if name == "grad" else None
    fields = fields_of(holder)
    for place in (fields, *(fields.get(kept) or {} for kept in ("_parameters", "_buffers", "_modules"))):
        if name in place:
            return place[name]
    return None


def _refused_operand(
    kind: str, target: ast.expr | None, located: Located, frame: FrameType
) -> tuple[ast.expr | None, torch.Tensor | None]:
    """The expression and the tensor that PyTorch refused: what the operation writes, or an operand the error means."""
    tensor = None if target is None else _value(target, frame)
    if kind == "inference" and (tensor is None or not tensor.is_inference()):
        return _inference_operand(located, frame) or (target, tensor)
    if kind == "leaf" and target is not None and tensor is None:
        return _leaf_among(target, frame) or (target, tensor)
    return target, tensor


def _inference_operand(located: Located, frame: FrameType) -> tuple[ast.expr, torch.Tensor] | None:
    """The tensor from inference_mode that a normal operation was given."""
    for node in ast.walk(located.node or located.statement or ast.Pass()):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            tensor = _value(node, frame)
            if tensor is not None and tensor.is_inference():
                return node, tensor
    return None


def _leaf_among(target: ast.expr, frame: FrameType) -> tuple[ast.expr, torch.Tensor] | None:
    """The first leaf of a list that was written as a whole (`torch._foreach_add_(params, ...)`)."""
    written = _evaluate(target, frame)
    for number, one in enumerate(written if type(written) in (list, tuple) else ()):
        if isinstance(one, torch.Tensor) and one.is_leaf and one.requires_grad:
            return ast.Subscript(target, ast.Constant(number), ast.Load()), one
    return None


# -- the diagnosis ----------------------------------------------------------------------------------------------------


def _diagnosis(
    error: BaseException,
    match: Match,
    located: Located,
    mutation: Mutation,
    target: ast.expr | None,
    tensor: torch.Tensor | None,
    frame: FrameType,
) -> Diagnosis:
    kind = BY_NAME[match.entry.kind]
    name = ast.unparse(target) if target is not None and sites.complexity_of_name(target) is not None else None
    made_at = _made_at(kind.name, tensor, target, located, frame)
    described = Tensor(name)
    if tensor is not None:
        of_part = isinstance(target, ast.Subscript) and _value(target.value, frame) is tensor
        described = names.described(tensor, name)
        if of_part:  # `tensor` is then the whole tensor
            described = replace(described, shape=None)
    return Diagnosis(
        kind=kind.name,
        code=kind.code,
        error=str(error),
        tensor=described,
        why=match.cause,
        raised_at=located.site,
        mutations=(mutation,),
        made_at=made_at,
        fixes=fixes_for(kind.name, [(mutation.operation, located)], False, tensor=name, error=str(error)),
        notes=_parameter_note(tensor, frame, name),
    )


def _owner_of_parameters(target: ast.expr | None, located: Located, frame: FrameType) -> Any:
    """The optimizer of `optimizer.step()`, the module of `module.load_state_dict(...)`; else None."""
    stepped = None if target is None else _evaluate(target, frame)
    if isinstance(stepped, torch.optim.Optimizer):
        return stepped
    call = located.node.func if isinstance(located.node, ast.Call) else None
    loaded = _evaluate(call.value, frame) if isinstance(call, ast.Attribute) and call.attr == _LOAD else None
    return loaded if isinstance(loaded, torch.nn.Module) else None


_LOAD = "load_state_dict"


def _expanded_parameter(
    error: BaseException, match: Match, located: Located, owner: Any, frame: FrameType
) -> Diagnosis:
    """A refused step or load: which parameter is an expanded tensor, and where it was made."""
    kind = BY_NAME[match.entry.kind]
    if isinstance(owner, torch.optim.Optimizer):
        held = [tensor for group in owner.param_groups for tensor in group["params"]]
        operation, remedy = f"{type(owner).__name__}.step", "`nn.Parameter(x.expand(...).clone())`"
    else:
        held = [*owner.parameters(), *owner.buffers()]
        operation, remedy = _LOAD, "`weight.data = x.expand(...).clone()`"
    shared = [
        item
        for item in held
        if any(step == 0 and size > 1 for step, size in zip(item.stride(), item.shape, strict=True))
    ]
    name = names.name_in_frames(shared[0], names.own_frames(None, frame)) if shared else None
    place = tensor_writes.where_leaf_was_made(shared[0]) if shared else None
    return Diagnosis(
        kind=kind.name,
        code=kind.code,
        error=str(error),
        tensor=names.described(shared[0], name) if shared else Tensor(None),
        why=match.cause,
        raised_at=located.site,
        mutations=(Mutation(operation, located.site, None),),
        made_at=sites.at_instruction(place).site if place is not None else None,
        fixes=(Fix(f"Make the parameter of a copy: {remedy}.", "suggestion"),),
    )


def _parameter_note(tensor: torch.Tensor | None, frame: FrameType, name: str | None) -> tuple[str, ...]:
    """Says which module the parameter belongs to, if its name does not."""
    base = tensor if tensor is None or tensor._base is None else tensor._base
    if base is None or not (base.is_leaf and base.requires_grad):
        return ()
    full = names.name_in_frames(base, names.own_frames(None, frame))
    is_what = "is" if base is tensor else "is a view of"
    return (f"{name} {is_what} {full}.",) if full and name and full != name and full.split(".")[0] != name else ()


def _made_at(
    kind: str, tensor: torch.Tensor | None, target: ast.expr | None, located: Located, frame: FrameType
) -> Site | None:
    """Where the leaf or the view was made: from the record, else from the only assignment to its name."""
    if tensor is not None and kind in ("leaf", "leaf-view"):
        base = tensor if tensor._base is None else tensor._base
        place = tensor_writes.where_leaf_was_made(base)
        if place is not None:
            return sites.at_instruction(place).site
    if tensor is not None and kind in ("multi-view", "custom-view", "expanded", "leaf-view"):
        site = _view_made_at(tensor)
        if site is not None and site != located.site:
            return site
    return _only_assignment(target, located) if kind not in ("shape-dtype", "out-arg") else None


def _view_made_at(tensor: torch.Tensor) -> Site | None:
    try:
        node = tensor.grad_fn
    except RuntimeError:
        return None
    if node is None or not tensor._is_view() or graph.number_of(node) is None:
        return None
    found = sites.at_place(place_of(node))
    return found.site if found else None


def _only_assignment(target: ast.expr | None, located: Located) -> Site | None:
    """The statement that bound the name, if the function has only one."""
    target = whole_of(target)
    if not isinstance(target, ast.Name) or located.statement is None:
        return None
    tree = sites.source_tree(located.filename)
    scope = _scope_of(tree, located.statement)
    bound = [node for node in _statements(scope) if _binds(node, target.id)]
    parameters = [arg.arg for arg in ast.walk(scope.args) if isinstance(arg, ast.arg)] if _is_function(scope) else []
    if len(bound) != 1 or target.id in parameters or bound[0] is located.statement:
        return None
    return sites.site_of(located.filename, bound[0], located.site.function)


def _is_function(scope: Any) -> bool:
    return isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)


def _scope_of(tree: sites.SourceTree, statement: ast.stmt) -> Any:
    around = tree.enclosing(sites.span_of(statement))
    functions = [node for node in around if _is_function(node)]
    return functions[-1] if functions else tree.tree


def _statements(scope: Any) -> Iterator[ast.stmt]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.stmt):
            yield node
        if not _is_function(node) and not isinstance(node, ast.ClassDef | ast.expr):
            yield from _statements(node)


def _binds(node: ast.stmt, name: str) -> bool:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.For | ast.AsyncFor):
        targets = [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    return any(
        isinstance(part, ast.Name) and part.id == name
        for target in targets
        for part in ([target] if isinstance(target, ast.Name) else ast.walk(target))
        if isinstance(target, ast.Name | ast.Tuple | ast.List)
    )


# -- raised later: the view is refused at its next use, after the wrong write ---------------------------------------


_AFTER_STEP = (
    Fix(
        "Take the parts in every round: what `unbind` or a loop has given before the step is out of date.", "suggestion"
    ),
    Fix("Keep the parameter itself instead of its parts.", "suggestion"),
)


def _written_before(error: BaseException, match: Match, frame: FrameType, located: Located) -> Diagnosis:
    kind = BY_NAME[match.entry.kind]
    name, view = _refused_view(located, frame, str(error))
    culprit, version = _last_write(view, unless_grad_was_off=kind.name == "nograd-view")
    mutations: tuple[Mutation, ...] = ()
    wrote: list[tuple[str, Located | None]] = []
    if culprit is not None and culprit.frames:
        where = sites.at_instruction(culprit.frames[-1], culprit.operation)
        mutations = (Mutation(culprit.operation, where.site, version),)
        wrote = [(culprit.operation, where)]
    return Diagnosis(
        kind=kind.name,
        code=kind.code,
        error=str(error),
        tensor=Tensor(name) if view is None else names.described(view, name),
        why=match.cause,
        raised_at=located.site,
        mutations=mutations,
        made_at=_only_assignment(ast.Name(name), located) if name and name.isidentifier() else None,
        fixes=_AFTER_STEP if isinstance(culprit, Step) else fixes_for(kind.name, wrote, False, error=str(error)),
        notes=() if mutations else ("The line that wrote the base is not known.",),
    )


def _refused_view(located: Located, frame: FrameType, message: str) -> tuple[str | None, torch.Tensor | None]:
    """The tensor in the failing expression, or in a module that it runs, that alone raises the same error."""
    for node in ast.walk(located.statement or ast.Pass()):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Load):
            value = _evaluate(node, frame)
            for name, tensor in _tensors_of(ast.unparse(node), value):
                try:
                    _ = tensor.grad_fn
                except RuntimeError as error:
                    if str(error) == message:
                        return name, tensor
    return None, None


def _tensors_of(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, torch.nn.Module):
        for path, module in value.named_modules():
            prefix = f"{name}.{path}" if path else name
            held = {**module._parameters, **module._buffers, **vars(module)}
            yield from ((f"{prefix}.{key}", one) for key, one in held.items() if isinstance(one, torch.Tensor))


def _last_write(view: torch.Tensor | None, unless_grad_was_off: bool) -> tuple[Write | Step | None, int]:
    """The last write to the memory of a view, optimizer steps included, and the version after it."""
    storage = None if view is None else storage_of(view)
    found: list[tuple[int, Write | Step]] = [
        ((write.before or 0) + 1, write)
        for write in log.current().writes
        if write.storage == storage and (write.grad_enabled or not unless_grad_was_off)
    ]
    for step in [] if unless_grad_was_off else log.current().steps:
        for reference, before, after in step.versions():
            parameter = reference()
            if before != after and parameter is not None and storage_of(parameter) == storage:
                found.append((after, step))
    version, write = max(found, key=lambda candidate: candidate[0], default=(0, None))
    return write, version
