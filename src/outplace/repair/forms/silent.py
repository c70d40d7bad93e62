"""Silent bugs: a hook that writes its gradient, a stored state dict, an array that shares a tensor's memory."""

from __future__ import annotations

import ast

from outplace.knowledge.by_hand import ARRAY_VIEWS, ARRAYS_OF_TENSORS
from outplace.knowledge.traits import method_has
from outplace.repair.facts.location import Place, start_of_chain
from outplace.repair.forms import augmented, method, subscript
from outplace.repair.syntax.calls import called_name, method_call, only_call
from outplace.repair.syntax.code import Code, root_of, whole_of
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import bindings, binds, reads
from outplace.repair.syntax.moves import Move


def returned_gradient(code: Code, node: ast.expr | ast.stmt, statement: ast.stmt) -> list[Edit] | None:
    """Makes the hook return a new gradient instead of writing its argument."""
    function = code.function(node)
    if isinstance(function, ast.Lambda):
        return _new_value(code, node) if function.body is method.chain_of(code, node) else None  # type: ignore[arg-type]
    if function is None or any(isinstance(item, ast.Yield) for item in ast.walk(function)):
        return None
    returns = [item for item in ast.walk(function) if isinstance(item, ast.Return) and code.function(item) is function]
    if returns:
        has_value = any(item.value is not None for item in returns)
        return _rebound(code, statement) if has_value else None
    call = only_call(statement)
    if call is not None and function.body[-1] is statement:
        # A module's hook gets tuples, and its result replaces `grad_input`: there is no name.
        value = _new_value(code, call) if _name(statement) is not None else None
        start = code.span(statement)[0]
        return None if value is None else [Edit(start, start, "return "), *value]
    edits = _rebound(code, statement)
    name = ast.unparse(statement.target) if isinstance(statement, ast.AugAssign) else _name(statement)
    if edits is None or name is None:
        return None
    end = code.line_end(function.body[-1].end_lineno or 0)
    return [*edits, Edit(end, end, f"\n{code.indent(function.body[0])}return {name}")]


def _new_value(code: Code, node: ast.expr | ast.stmt) -> list[Edit] | None:
    """The edits that make a writing call return a new tensor."""
    new_value = method.new_value(code, method.chain_of(code, node)) if isinstance(node, ast.Call) else None
    return None if new_value is None else new_value[1]


def _rebound(code: Code, statement: ast.stmt) -> list[Edit] | None:
    """`grad *= 2` as `grad = grad * 2`."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return augmented.out_of_place(code, statement)
    call = only_call(statement)
    return method.out_of_place(code, call, statement) if call is not None and _name(statement) is not None else None


def _name(statement: ast.stmt) -> str | None:
    """`grad` of `grad.mul_(2).add_(1)`."""
    call = only_call(statement)
    target = start_of_chain(call) if call is not None else None
    return target.id if isinstance(target, ast.Name) else None


def copied_state_dicts(code: Code, written: str | None = None) -> list[list[Edit]]:
    """A deep copy for each `model.state_dict()` that is stored; first for the name that is written."""
    found: list[list[Edit]] = []
    first = 0
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "state_dict":
            parent = code.parents.get(node)
            kept = isinstance(parent, ast.Assign | ast.AnnAssign | ast.Return | ast.Dict | ast.Tuple | ast.List)
            if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
                kept = parent.func.attr in ("append", "insert", "update")
            if kept:
                is_written = written is not None and parent is not None and binds(parent, written)
                found.insert(first if is_written else len(found), [*code.importing("copy"), *_deep_copied(code, node)])
                first += is_written
    return found


def _deep_copied(code: Code, node: ast.expr) -> list[Edit]:
    return code.surrounded(node, f"{code.module_name('copy') or 'copy'}.deepcopy(", ")")


def own_tensors(code: Code, node: ast.AST) -> list[Edit]:
    """`torch.from_numpy(array).clone()`, if an operation gets such a tensor, or a name that is only read."""
    statement = code.statement(node)
    if statement is None:
        return []
    names = {item.id for item in ast.walk(statement) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)}
    bound = [
        binding for name in sorted(names) for binding in bindings(code, statement, name) if _is_only_read(code, binding)
    ]
    homes = [statement, *(item for item in bound if isinstance(item, ast.Assign))]
    calls = [
        item for home in homes for item in ast.walk(home) if isinstance(item, ast.Call) and _shares_array(code, item)
    ]
    return code.followed(".clone()", *calls)


def _shares_array(code: Code, call: ast.Call) -> bool:
    """`torch.from_numpy(array)`, if it is not copied immediately."""
    above = code.parents.get(call)
    copied = isinstance(above, ast.Attribute) and above.attr in ("clone", "copy")
    named = isinstance(call.func, ast.Attribute) and method_has(call.func.attr, "takes_array")
    return named and not copied and ast.unparse(call.func).startswith("torch.")


def own_parts(code: Code) -> list[list[Edit]]:
    """A copy for each `torch.from_numpy(array)`."""
    return [code.followed(".clone()", call) for call in code.every(ast.Call) if _shares_array(code, call)]


def copied_samples(code: Code) -> list[Edit]:
    """A deep copy of `self.data[index]`, if the index is an argument of a method and the class has a `__getitem__`."""
    edits: list[Edit] = []
    for owner in code.every(ast.ClassDef):
        functions = [statement for statement in owner.body if isinstance(statement, ast.FunctionDef)]
        if any(function.name == "__getitem__" for function in functions):
            items = (item for function in functions for item in _handed_items(code, function))
            edits += [edit for item in items for edit in _deep_copied(code, item)]
    return [*code.importing("copy"), *edits] if edits else []


def _handed_items(code: Code, function: ast.FunctionDef) -> list[ast.Subscript]:
    """Those that are returned, bound to a name or passed to a function; not `if self.seen[index]`."""
    arguments = {arg.arg for arg in function.args.args[1:]}
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        if isinstance(node.slice, ast.Name) and node.slice.id in arguments
        if isinstance(node.value, ast.Attribute) and ast.unparse(node.value.value) == "self"
        if isinstance(code.parents[node], ast.Return | ast.Assign | ast.Call | ast.Starred | ast.Tuple)
    ]


def copied_returns(place: Place) -> list[Edit]:
    """`return self.state`, `return self.buffer.numpy()` of an object that changes it later: a copy each time."""
    owner = place.code.class_of(place.node)
    returned = [node.value for node in ast.walk(owner) if isinstance(node, ast.Return)] if owner is not None else []
    parts = [part for item in returned for part in (item.elts if isinstance(item, ast.Tuple) else [item])]
    shared = [part for part in parts if part is not None and (_is_kept(part, place.path) or _is_array_of_own(part))]
    return place.code.followed(".copy()", *shared)


def _is_kept(returned: ast.expr, path: str | None) -> bool:
    return path is not None and "." in path and ast.unparse(returned) == path


def _is_array_of_own(returned: ast.expr) -> bool:
    """Is it an array over an attribute's memory: `self.buffer.detach().numpy()`?"""
    is_array = isinstance(returned, ast.Call) and ast.unparse(returned.func).endswith(".numpy")
    return is_array and ast.unparse(root_of(returned)).startswith("self.")


def copied_arrays(code: Code) -> list[Edit]:
    """Copies of appended values that share memory: `torch.from_numpy(a)`, `x.numpy()`, a function that returns one.

    If an entry has several of them, the first may have been changed before it is copied.
    """
    edits: list[Edit] = []
    for call in code.every(ast.Call):
        if not (isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "appendleft") and call.args):
            continue
        kept = call.args[0]
        tensors = [node for node in ast.walk(kept) if isinstance(node, ast.Call) and _shares_array(code, node)]
        if len(tensors) > 1:
            return []
        edits += code.followed(".clone()", *tensors)
        if isinstance(kept, ast.Call) and not tensors and _is_array_of_tensor(code, kept):
            edits += code.followed(".copy()", kept)
    return edits


def _is_array_of_tensor(code: Code, call: ast.Call) -> bool:
    """`x.detach().numpy()`, or a call of a function that returns one."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "numpy"
    named = [
        item for item in code.every(ast.FunctionDef) if isinstance(call.func, ast.Name) and item.name == call.func.id
    ]
    returned = [node.value for function in named for node in ast.walk(function) if isinstance(node, ast.Return)]
    methods = [item.func for item in returned if isinstance(item, ast.Call)]
    return any(isinstance(function, ast.Attribute) and function.attr == "numpy" for function in methods)


def own_leaves(code: Code) -> list[list[Edit]]:
    """A leaf made from a copy, for each `x.detach()`, `x.data` and `nn.Parameter(x)`."""
    found = [shared for node in ast.walk(code.tree) if (shared := _shared_by(node)) is not None]
    return [code.followed(".clone()", node) for node in found if not code.is_cloned(node)]


def _shared_by(node: ast.AST) -> ast.expr | None:
    """The expressions that share memory with another tensor: `x.detach()`, `x.data`, and the x of `nn.Parameter(x)`."""
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
        return node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "detach":
        return node
    if isinstance(node, ast.Call) and called_name(node) == "Parameter" and node.args:
        value = node.args[0]
        return value if isinstance(value, ast.Name | ast.Attribute | ast.Subscript) else None
    return None


def new_tensor(code: Code, statement: ast.stmt) -> list[Edit] | None:
    """`x[key] = x[key] + v` and `x = x + v`: the name or the item gets its own tensor."""
    if isinstance(statement, ast.AugAssign):
        parts = ast.walk(statement.target)
        return None if any(isinstance(part, ast.Call) for part in parts) else augmented.out_of_place(code, statement)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return method.out_of_place(code, statement.value, statement) or None
    return None


def _is_only_read(code: Code, binding: ast.AST | None) -> bool:
    """Is the bound tensor never written, so that a copy of it is as good?"""
    if not isinstance(binding, ast.Assign) or not isinstance(binding.targets[0], ast.Name):
        return False
    name, scope = binding.targets[0].id, code.scope(binding)
    for node in ast.walk(scope):
        written: ast.expr | None = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(node, ast.Assign):
            written = next((target for target in node.targets if isinstance(target, ast.Subscript)), None)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            written = start_of_chain(node.func.value)
        written = whole_of(written)
        if isinstance(written, ast.Name) and written.id == name:
            return False
    return True


def own_entries(code: Code) -> list[list[Edit]]:
    """For each `[x] * n` or `[x for _ in range(n)]`: a list with a separate x for each entry."""
    found: list[list[Edit]] = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            items, times = (node.left, node.right) if isinstance(node.left, ast.List) else (node.right, node.left)
            if isinstance(items, ast.List) and len(items.elts) == 1 and isinstance(items.elts[0], ast.Call):
                text = f"[{code.segment(items.elts[0])} for _ in range({code.segment(times)})]"
                found.append([code.replaced(node, text)])
        elif isinstance(node, ast.ListComp) and isinstance(node.elt, ast.Name) and not _is_bound_in(node):
            found.append(code.followed(".clone()", node.elt))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.fromkeys" and len(node.args) == 2:
            keys, value = (code.segment(argument) for argument in node.args)
            found.append([code.replaced(node, f"{{key: {value} for key in {keys}}}")])
    return found


def _is_bound_in(node: ast.ListComp) -> bool:
    bound = {name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
    return isinstance(node.elt, ast.Name) and node.elt.id in bound


def cloned_appends(code: Code, name: str) -> list[list[Edit]]:
    """A clone wherever this tensor is appended to a list, or stored in a list or a dict. The same for gradients."""
    kept = [value for node in ast.walk(code.tree) if (value := _kept_by(node, name)) is not None]
    return [code.followed(".clone()", *kept)] if kept else []


def _kept_by(node: ast.AST, name: str) -> ast.expr | None:
    """The value that this node stores, if it is the tensor of this name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("append"):
        value = node.args[0] if len(node.args) == 1 else None
        gradients = name.endswith(".grad") and isinstance(value, ast.ListComp) and _is_gradient(value.elt)
        return value.elt if gradients and isinstance(value, ast.ListComp) else _if_named(value, name)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key = node.targets[0].slice  # an optimizer's state["previous"] = p.grad
        same_key = isinstance(key, ast.Constant) and name.endswith(f"[{ast.unparse(key)}]".replace("'", '"'))
        return node.value if same_key and _is_gradient(node.value) else _if_named(node.value, name)
    return None


def _if_named(value: ast.expr | None, name: str) -> ast.expr | None:
    return value if value is not None and ast.unparse(value) == name else None


def _is_gradient(value: ast.expr) -> bool:
    return isinstance(value, ast.Attribute) and value.attr == "grad"


def cloned_parameters(code: Code) -> list[list[Edit]]:
    """Clones in comprehensions that store the parameters themselves."""
    found: list[list[Edit]] = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.ListComp | ast.DictComp):
            over = ast.unparse(node.generators[0].iter)
            value = node.elt if isinstance(node, ast.ListComp) else node.value
            bare = isinstance(value, ast.Name)
            if ("parameters(" in over or "state_dict(" in over) and (bare or ast.unparse(value).endswith(_NO_COPIES)):
                found.append(code.followed(".detach().clone()" if bare else ".clone()", value))
    return found


_NO_COPIES = (".data", ".detach()", ".cpu()")
"""Methods whose result shares the memory; the last one only if the tensor is on the CPU."""


def copied_in_ctx(code: Code) -> list[list[Edit]]:
    """Copies what a Function stores as an attribute of its ctx."""
    kept = (node.value for node in code.every(ast.Assign) if ast.unparse(node.targets[0]).startswith("ctx."))
    return [code.followed(".clone()", value) for value in kept if isinstance(value, ast.Name)]


def copied_gradient(code: Code, statement: ast.stmt, name: str) -> list[Edit]:
    """Makes the Function's backward write a copy of the gradient it was given."""
    start = code.span(statement)[0]
    return [Edit(start, start, f"{name} = {name}.clone()\n{code.indent(statement)}")]


def accumulated(code: Code, statement: ast.stmt) -> list[Edit] | None:
    """`y[index] += v`, or `y[index] = y[index] + v`, as an operation that adds for every repeated index."""
    target: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        target, value, op = statement.target, statement.value, statement.op
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        target, value, op = statement.targets[0], statement.value.right, statement.value.op
        if len(statement.targets) > 1 or ast.unparse(statement.value.left) != ast.unparse(target):
            return None
    if not isinstance(target, ast.Subscript):
        return None
    index = target.slice
    if isinstance(index, ast.Tuple | ast.Slice) or isinstance(value, ast.Constant):
        return None
    sign = {ast.Add: "", ast.Sub: "-"}.get(type(op))
    if sign is None:
        return None
    text = code.segment(value) if isinstance(value, ast.Name | ast.Call | ast.Attribute) else f"({code.segment(value)})"
    holder = code.segment(target.value)
    return [code.replaced(statement, f"{holder}.index_put_(({code.segment(index)},), {sign}{text}, accumulate=True)")]


def own_array(code: Code, statement: ast.stmt, target: ast.expr) -> list[list[Edit]]:
    """`.copy()` after the `.numpy()` that an array came from, or before `from_numpy` gets it."""
    holder = whole_of(target)
    if not isinstance(holder, ast.Name | ast.Attribute):
        return []
    found: list[list[Edit]] = []
    path = ast.unparse(holder)
    for binding in bindings(code, statement, path):
        value = getattr(binding, "value", None)
        if not isinstance(value, ast.Call):
            continue
        if method_call(value, *ARRAYS_OF_TENSORS, *ARRAY_VIEWS, "astype") is not None:
            found.append(code.followed(".copy()", value))
        elif called_name(value) == "asarray" and value.args:
            found.append([code.replaced(value.func, ast.unparse(value.func).replace("asarray", "array"))])
    for node in ast.walk(code.scope(statement)):
        if not isinstance(node, ast.Call) or not node.args or ast.unparse(node.args[0]) != path:
            continue
        if method_has(called_name(node), "takes_array"):
            found.append(code.followed(".copy()", node.args[0]))
    return found


def detached_copy(code: Code, statement: ast.stmt, target: ast.expr | None) -> list[Edit] | None:
    """`.clone()` after the `.detach()` or `.data` through which the target aliases an activation."""
    here = _detached(target) if target is not None else None
    if here is not None:
        aliases: list[ast.expr | None] = [here]
    else:
        holder = whole_of(target)
        if not isinstance(holder, ast.Name | ast.Attribute):
            return None
        assigned = [getattr(binding, "value", None) for binding in bindings(code, statement, ast.unparse(holder))]
        aliases = [_detached(value) if isinstance(value, ast.expr) else None for value in assigned]
    found = [alias for alias in aliases if alias is not None]
    return code.followed(".clone()", *found) if found and len(found) == len(aliases) else None


def _detached(node: ast.expr) -> ast.expr | None:
    """The part of a chain of methods and indices that ends with `.detach()` or `.data`."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                return None
            if node.func.attr == "detach":
                return node
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            return node
        else:
            node = node.value
    return None


def own_gradient(code: Code, statement: ast.stmt) -> list[Edit] | None:
    """`a.grad = b.grad.clone()`: each leaf gets its own gradient."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return code.followed(".clone()", value) if isinstance(value, ast.Name | ast.Attribute | ast.Subscript) else None


def changed_parameter(code: Code, statement: ast.stmt) -> list[Edit] | None:
    """`w = nn.Parameter(v)` as a change of the parameter that the optimizer steps."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, ast.Name | ast.Attribute) or not code.begins_line(statement):
        return None
    value = _new_contents(statement.value)  # type: ignore[attr-defined]
    if value is None:
        return None
    inner = code.indent(statement) + "    "
    torch = code.module_name("torch") or "torch"
    text = f"with {torch}.no_grad():\n{inner}{code.segment(target)}.copy_({code.segment(value)})"
    return [*code.importing("torch"), code.replaced(statement, text)]


def _new_contents(value: ast.expr) -> ast.expr | None:
    """The value of a new leaf: `v` in `nn.Parameter(v)` and in `v.requires_grad_()`."""
    if not isinstance(value, ast.Call):
        return None
    if called_name(value) == "Parameter":
        return value.args[0] if len(value.args) == 1 and not value.keywords else None
    if isinstance(value.func, ast.Attribute) and value.func.attr == "requires_grad_":
        turned_on = not value.args or (isinstance(value.args[0], ast.Constant) and value.args[0].value is True)
        return value.func.value if turned_on and not value.keywords else None
    return None


def made_of_parameters(code: Code, statement: ast.stmt) -> list[int]:
    """The lines above in this block that may make the optimizer: `x = f(model.parameters())`. The last comes first."""
    block = code.block(statement)
    above = block[: block.index(statement)]
    calls = [item for item in above if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call)]
    return [item.lineno for item in reversed(calls) if "parameters()" in ast.unparse(item.value)]


def optimizer_later(code: Code, statement: ast.stmt, line: int) -> list[Edit] | None:
    """Makes the optimizer after the module has got its last layer."""
    block = code.block(statement)
    assignment = next((item for item in block if item.lineno <= line <= (item.end_lineno or 0)), None)
    if not isinstance(assignment, ast.Assign) or block.index(assignment) >= block.index(statement):
        return None
    between = block[block.index(assignment) + 1 : block.index(statement) + 1]
    is_read = any(reads(item, ast.unparse(target)) for item in between for target in assignment.targets)
    return None if is_read else Move(code, [assignment], statement, after=True).edits()


def deep_copies(code: Code) -> list[list[Edit]]:
    """A deep copy for each `copy.copy(x)`."""
    called = [node for node in ast.walk(code.tree) if isinstance(node, ast.Call)]
    found = [node.func for node in called if ast.unparse(node.func) == f"{code.module_name('copy')}.copy"]
    return [[code.replaced(function, f"{ast.unparse(function)[:-4]}deepcopy")] for function in found]


def own_argument(place: Place) -> list[Edit] | None:
    """`work = x.float()` in a Function's forward, which then writes it: a copy, even if nothing is converted."""
    assigned = list(bindings(place.code, place.statement, place.path)) if place.path is not None else []
    if assigned == [None]:
        return subscript.into_a_copy(place, hoist=False)
    values = [new_value.value for new_value in assigned if isinstance(new_value, ast.Assign)]
    if len(values) != 1 or len(assigned) != 1:
        return None
    plain = isinstance(values[0], ast.Call | ast.Name | ast.Attribute)
    return place.code.followed(".clone()", values[0]) if plain else None
