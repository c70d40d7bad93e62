"""Other writes that PyTorch refuses immediately."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from outplace.knowledge.traits import has
from outplace.model import Safety
from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.facts.intent import intent_of
from outplace.repair.facts.location import Place
from outplace.repair.forms import cast, expanded, no_grad, out_argument, saver, several_views
from outplace.repair.plan.copies import short
from outplace.repair.plan.out_of_place import out_of_place, plain
from outplace.repair.plan.own_memory import own_memory
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import bindings


def multi_view(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A write to one of several views of one call: takes the view by its index, or writes out of place."""
    name = place.path
    if name is not None and "." not in name:
        if place.facts.parameter == "yes" and intent_of(place) == "update":
            under = no_grad.wrapped(place.code, [place.statement])
            if under is not None:
                yield place.candidate("Update the parameter outside the graph", "safe", under)
            return
        edits = several_views.by_index(place.code, place.statement, name)
        if edits is not None:
            yield place.candidate(f"Take `{name}` by its index: that view may be written", "safe", edits)
    if place.facts.used and place.facts.may_rebind == "yes":  # who reads the write reads it through this holder
        yield from (rewrite.candidate("safe") for rewrite in plain(place))
        return
    yield from out_of_place(place, trusting=True)
    ranged = several_views.by_range(place.code, place.statement, name) if name is not None else None
    if ranged is not None:
        yield place.candidate(f"Take `{name}` by its range: that view may be written", "safe", ranged)


def refused(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A new tensor, or a copy if the memory is shared."""
    if place.bug.kind == "nograd-view":
        yield from _view_with_grad(place)
    if place.bug.kind == "custom-view" and _is_result_of_its_own(place):
        yield from (rewrite.candidate("safe") for rewrite in plain(place))
        return
    runs_forward = place.bug.kind == "expanded" and _writes_one_value(place) and not _refused_at_once(place)
    for candidate in out_of_place(place, trusting=True):
        # Such a write changes everything that shares the memory, and only its backward is refused. A copy has other
        # values.
        yield replace(candidate, safety="unsafe") if runs_forward else candidate
    if place.bug.kind == "nograd-view" and _is_of_a_leaf(place):
        return  # to write a leaf outside of the graph, or to compute with what is written? Only the author knows
    if place.bug.kind == "nograd-view":
        yield from _view_made_with_grad(place)
    for candidate in own_memory(place):
        yield replace(candidate, safety="unsafe") if runs_forward else candidate
    if place.bug.kind == "expanded":
        yield from _memory_of_its_own(place, "unsafe" if runs_forward else "safe")
    if place.bug.kind != "inference":  # a copy made there would be an inference tensor, too
        yield from _copied_where_made(place)


def _memory_of_its_own(place: Place, safety: Safety) -> Iterator[Candidate]:
    """Copies the expanded tensor where it is expanded."""
    copied = expanded.parameter(place.files)
    if copied is not None:
        yield Candidate("Give what is expanded memory of its own", safety, {copied[0]: tuple(copied[1])})


def _copied_where_made(place: Place) -> Iterator[Candidate]:
    """Copies the tensor at the operation that made it."""
    site = place.bug.made_at
    code = place.files.code(site.file) if site is not None else None
    node = code.at(site) if code is not None and site is not None else None
    if code is None or node is None:
        return
    calls = (call for call in ast.walk(node) if isinstance(call, ast.Call))
    parameter = next((call for call in calls if called_name(call) == "Parameter"), None)
    if place.bug.kind == "expanded" and parameter is not None and parameter.args:
        edits = {code.path: tuple(code.followed(".clone()", parameter.args[0]))}
        yield Candidate("Make the parameter of a copy", "safe", edits)
        return
    copied = saver.result_clone(code, node)
    if copied is not None:
        yield Candidate("Make a copy where the view is made", "unsafe", {code.path: tuple(copied)}, provable=True)


def _is_result_of_its_own(place: Place) -> bool:
    """The result of a Function is meant as a new tensor: who reads what it was given does not want the write."""
    return place.facts.used and not any(read.view == "custom" for read in place.facts.reads)


def _refused_at_once(place: Place) -> bool:
    """Did the write itself raise the error, not a backward?"""
    raised = place.bug.raised_at
    return raised is not None and any(
        (raised.file, raised.line) == (write.file, write.line) for write in place.bug.writes
    )


def _writes_one_value(place: Place) -> bool:
    """Is it a write that PyTorch allows on expanded memory: `fill_`, `x.copy_(x)`, by a mask or a list of indices?"""
    call = place.statement.value if isinstance(place.statement, ast.Expr) else place.statement
    if isinstance(call, ast.Call):
        method, given = call.func, [ast.unparse(arg) for arg in call.args[:1]]
        if not isinstance(method, ast.Attribute):
            return False
        return has(method.attr, "fills_expanded") or (method.attr == "copy_" and given == [ast.unparse(method.value)])
    index = place.target.slice if isinstance(place.target, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    one_by_one = ast.Slice | ast.Constant | ast.UnaryOp
    return any(not (isinstance(part, one_by_one) or saver.is_number(place.code, part)) for part in parts if part)


def _view_with_grad(place: Place) -> Iterator[Candidate]:
    """Makes the view outside of `no_grad`, so that a write through it belongs to the graph.

    If an optimizer writes the view, the write goes under `no_grad` too.
    """
    code = place.code
    stepped = no_grad.decorated_step(code, place.statement)
    if stepped is not None:
        yield place.candidate("Step under `no_grad`", "safe", stepped)
    if _is_of_a_leaf(place):
        return
    for binding in bindings(code, place.statement, place.path) if place.path else ():
        block = code.parents.get(binding) if binding is not None else None
        if isinstance(binding, ast.Assign) and isinstance(block, ast.With) and no_grad.is_no_grad(block):
            edits = no_grad.moved_out(code, block, binding)
            if edits is not None:
                yield place.candidate("Make the view outside of `no_grad`", "safe", edits)


def _is_of_a_leaf(place: Place) -> bool:
    """Is the written memory that of a leaf that is read later?"""
    facts = place.facts
    return facts.leaf == facts.requires_grad == "yes" or any(read.of_leaf for read in facts.reads)


def _view_made_with_grad(place: Place) -> Iterator[Candidate]:
    """Takes the statement that makes the view out of the function's `no_grad`, wherever that is."""
    seen: list[list[Edit]] = []
    for span in {span: None for trail in place.facts.trails for span in reversed(trail)}:
        home = place.files.code(span.file)
        node = home.expression(*span[1:]) if home is not None else None
        statement = home.statement(node) if home is not None and node is not None else None
        edits = no_grad.with_grad(home, statement) if home is not None and statement is not None else None
        if edits is not None and edits not in seen and len(seen) < _MOST_STATEMENTS:
            seen.append(edits)
            yield Candidate("Make the view outside of `no_grad`", "safe", {span.file: tuple(edits)})


_MOST_STATEMENTS = 4
"""Statements under `no_grad` that may have made a view, and are tried."""


def out_arg(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """The result gets a name instead of being written into `out=`."""
    call = place.node.value if isinstance(place.node, ast.Expr) else place.node
    named = None
    if isinstance(call, ast.Call):
        named = out_argument.into_a_name(place.files, place.code, call, place.statement)
    if named is not None:
        yield place.candidate(f"Bind the result to `{named[0]}` instead of writing into `out=`", "safe", named[1])
    yield from refused(place, neighbours)


def overlap(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Copies the operand, or the index, that shares the target's memory."""
    names = [place.path] if place.path else []
    index = place.target.slice if isinstance(place.target, ast.Subscript) else None
    if index is not None and ast.unparse(index) == place.path:
        edits = place.code.followed(".clone()", index)
        yield place.candidate(f"Index by a copy of `{place.path}`", "safe", edits)
    for clone in saver.operand_clones(place.code, place.node, names):
        if clone.named:
            yield place.candidate(f"Read a copy of `{short(clone.text)}`", "safe", [clone.edit])


def shape_dtype(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A sum or a quotient may become a float. A value that is only clamped keeps its dtype."""
    bounds = _is_bounding(place.node)
    if place.bug.cause == "shape of data":  # a caller may need the present shape
        yield from (replace(candidate, safety="unsafe") for candidate in out_of_place(place))
        return
    if not bounds:
        yield from out_of_place(place)
    if place.target is not None and (place.bug.cause == "dtype" or _may_be_cast(place.bug)):
        edits = cast.to_target(place.code, place.node, place.target)
        if edits is not None:
            yield place.candidate("Cast the update to the dtype of its target", "safe", edits)
    if bounds:
        yield from out_of_place(place)


def _may_be_cast(bug: Bug) -> bool:
    """Did PyTorch refuse a result whose dtype does not fit? A complex result needs its imaginary part."""
    match = bug.recognised
    if match is None or match.entry.name not in ("result-type", "out-cat-dtype"):
        return False
    return not match.groups.get("result", "").startswith("Complex")


def _is_bounding(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
    return name.startswith(("clamp", "clip"))


def inference(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A clone is a normal tensor. If several are needed, or none can be made, the mode is changed."""
    instead = list(no_grad.instead_of_inference(place.files))
    several = any(bug.kind == "inference" for bug in neighbours)
    title = "Use `no_grad` instead of `inference_mode`: what is made there is used outside of it"
    modes = [Candidate(title, "safe", {path: tuple(edits)}) for path, edits in instead if edits and len(instead) == 1]
    clones = list(_clones(place, neighbours))
    yield from [*modes, *clones] if several else clones or modes


def _clones(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    names = [name for name in (place.bug.tensor, place.path) if name]
    match = place.bug.recognised
    is_saved = place.bug.cause == "saved" or (match is not None and match.entry.name == "inference-saved")
    if is_saved or place.target is None:
        clones = saver.operand_clones(place.code, place.node, names)
        for item in [clone for clone in clones if clone.named][:1] or clones[:3]:
            yield place.candidate(
                f"Clone `{short(item.text)}`, which was made under inference_mode", "safe", [item.edit]
            )
        return
    yield from refused(place, neighbours)
