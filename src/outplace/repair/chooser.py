"""For one bug the ways to repair it, the best first."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from outplace.model import Safety, Site
from outplace.repair.aliases import may_rebind, only_name, shared_names
from outplace.repair.bug import Bug, Candidate, Moment
from outplace.repair.code import Code
from outplace.repair.edits import Edit
from outplace.repair.files import Files
from outplace.repair.flow import bindings, read_later
from outplace.repair.forms import (
    augmented,
    backward_first,
    cast,
    forward_hook,
    inplace_flag,
    method,
    no_grad,
    out_argument,
    saver,
    several_views,
    silent,
    step_order,
    subscript,
    table,
)
from outplace.repair.intent import intent_of
from outplace.repair.origins import class_name, has_flag, origins
from outplace.repair.place import Place, Style, place_at, target_of

Title = str


def propose(files: Files, bug: Bug, style: Style = "auto", neighbours: tuple[Bug, ...] = ()) -> Iterator[Candidate]:
    """The candidates for a bug. `neighbours` are further bugs of the file, which one edit may mend together."""
    if bug.kind == "stepped":
        yield from _stepped(files, bug, neighbours)
        yield from _kept_weights(files, bug)
        return
    for site in bug.writes[:1] if bug.kind not in ("saved", "silent-data") else bug.writes:
        place = place_at(files, bug, site, style)
        if place is not None:
            yield from _BY_KIND.get(bug.kind, _nothing)(place, neighbours)


def _nothing(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    yield from ()


# -- a new tensor instead of a written one ----------------------------------------------------------------------------


def plain(place: Place) -> Iterator[tuple[Title, dict[str, tuple[Edit, ...]]]]:
    """The writes out of place, whatever others may think of it."""
    here = place.code.path
    for title, edits in _plain_here(place):
        yield title, {here: tuple(edits)}
    call = place.node if isinstance(place.node, ast.Call) else None
    if call is not None and place.target is None:
        for home, constructor in inplace_flag.flags_behind(place.files, place.code, call):
            changes = {home.path: tuple(inplace_flag.dropped(home, constructor))}
            if _is_whole(place.statement, call) and call.args:
                start = place.code.span(call)[0]
                bound = Edit(start, start, f"{place.code.segment(call.args[0])} = ")
                changes[here] = (*changes.get(here, ()), bound)
            yield "Build the module without `inplace=True`", changes


def _plain_here(place: Place) -> Iterator[tuple[Title, list[Edit]]]:
    code, node, statement = place.code, place.node, place.statement
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.Call) and (flag := inplace_flag.dropped(code, call)):
        if isinstance(statement, ast.Expr) and statement.value is call and place.target is not None:
            start = code.span(statement)[0]
            flag = [Edit(start, start, f"{code.segment(place.target)} = "), *flag]
        yield "Drop `inplace=True`", flag
        return
    if not place.whole:
        expression = subscript.as_expression(place)
        if expression is not None:
            yield expression
            if place.style != "auto":
                return
        for hoist in (True, False) if _saved_before_loops(place) else (False,):
            copy = subscript.into_a_copy(place, hoist)
            if copy is not None:
                yield f"Write into a copy of `{place.path}`", copy
    elif isinstance(statement, ast.AugAssign):
        symbol = augmented.SYMBOLS[type(statement.op)]
        yield f"Write `{symbol}` out of place", augmented.out_of_place(code, statement)
    elif isinstance(call, ast.Call) and any(keyword.arg == "out" for keyword in call.keywords):
        edits = out_argument.out_of_place(code, call, statement)
        if edits is not None:
            yield "Bind the result instead of writing into `out=`", edits
    elif isinstance(call, ast.Call):
        edits = method.out_of_place(code, call, statement)
        if edits is not None:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            yield f"Use `{name.removesuffix('_')}`, which makes a new tensor", edits


def _is_whole(statement: ast.stmt, call: ast.Call) -> bool:
    """Is the call a statement by itself, its result not used?"""
    return isinstance(statement, ast.Expr) and statement.value is call


def _saved_before_loops(place: Place) -> bool:
    """Is one copy before the loops enough? Not where the loops themselves save what they write."""
    if place.bug.kind != "saved":
        return True
    loops = place.code.loops(place.statement)
    inside = set(ast.walk(loops[-1])) if loops else set()
    scope = place.code.scope(place.statement)
    nodes = [place.code.at(site) if site.file == place.code.path else None for site, _ in place.bug.savers]
    return bool(nodes) and all(node and place.code.scope(node) is scope and node not in inside for node in nodes)


def _rebinding(place: Place) -> str:
    """May what is written be left as it is, and a new tensor be used from here on?"""
    call = place.node.value if isinstance(place.node, ast.Expr) else place.node
    if isinstance(call, ast.Call) and place.target is None:  # a module that was built to write
        return _argument(place, call)
    if isinstance(call, ast.Call) and has_flag(call):
        return _argument(place, call)
    if place.holder is None:  # `f(x).mul_(2)`: nobody has it but the expression itself, or somebody who is to see it
        found = origins(place.files, place.code, place.target) if place.target is not None else None
        return "yes" if found and all(one.kind == "fresh" for one in found) else "no"
    return place.rebinding


def _argument(place: Place, call: ast.Call) -> str:
    subject = call.args[0] if call.args else None
    if isinstance(subject, ast.Name):
        if not _is_whole(place.statement, call) and read_later(place.code, place.statement, subject.id):
            return "no"
        return may_rebind(place.files, place.code, place.statement, subject.id)
    return "yes" if isinstance(subject, ast.Call | ast.BinOp) else "no"


def _out_of_place(place: Place, trusting: bool = False) -> Iterator[Candidate]:
    """Plain rewrites: safe where nobody else sees the write; else for a proof to decide, or not at all.

    `trusting` is for operations that PyTorch refuses wherever they are reached: nobody can rely on what they write.
    """
    answer = _rebinding(place)
    if (
        answer == "unknown"
        and trusting
        and place.path is not None
        and read_later(place.code, place.statement, place.path)
    ):
        answer = "yes"
    if answer == "no":
        return
    for title, edits in plain(place):
        if answer == "yes":
            yield Candidate(title, "safe", edits)
        else:
            yield Candidate(title, "unsafe", edits, provable=True)


# -- the kinds --------------------------------------------------------------------------------------------------------


def _saved(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Out of place where that is right, else a copy for the backward."""
    output = forward_hook.returned_output(place)
    if output is not None:
        yield place.candidate("Return a new output from the hook", "safe", output)
    if place.style == "auto":
        yield from _stacked(place, neighbours)
    copies = list(_copies(place))
    reads_back = (
        not place.whole and place.path is not None and any(f"`{place.path}[" in one.title for one in copies[:1])
    )
    if reads_back:
        yield from copies
    rewrites = list(_out_of_place(place))
    yield from (one for one in rewrites if one.safety == "safe")
    if not reads_back:
        yield from copies
    yield from (one for one in rewrites if one.safety != "safe")


def _stacked(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A table that a loop fills and reads back as a list, with those that fail beside it in the same loop."""
    loops = place.code.loops(place.statement)[:1]
    if not loops:
        return
    lines = range(loops[0].lineno, (loops[0].end_lineno or loops[0].lineno) + 1)
    near = [(bug, site) for bug in neighbours if bug.kind == "saved" for site in bug.writes if site.line in lines]
    others = [place_at(place.files, bug, site) for bug, site in near]
    beside = [one.statement for one in others if one is not None and one.code is place.code]
    writes = [place.statement, *(one for one in beside if place.code.loops(one)[:1] == loops)]
    found = table.as_lists(place.files, place.code, writes)
    if found is not None:
        names, here = " and ".join(f"`{name}`" for name in found.names), place.code.path
        title = f"Collect the entries of {names} in a list, and stack them behind the loop"
        yield Candidate(title, "unsafe", {here: found.edits}, True, checking={here: found.checking})


def _copies(place: Place) -> Iterator[Candidate]:
    """`x.clone() * y`, at each place that saved the tensor."""
    written = [name for name in (place.bug.tensor, place.path, place.target and ast.unparse(place.target)) if name]
    shared = shared_names(place.files, place.code, place.statement, place.path) if place.path else set()
    names = [*written, *sorted(shared - set(written))]
    firsts: dict[str, list[Edit]] = {}
    # A checkpoint keeps what its region is given, wherever that is used inside.
    sure = "checkpoint(" not in place.code.text
    for index, (site, saved_as) in enumerate(place.bug.savers):
        code = place.files.code(site.file)
        node = code.at(site) if code is not None else None
        if code is None or node is None or _writes_unseen(place, site):
            return
        ways: list[tuple[Title, list[Edit], bool]] = []
        result = saver.result_clone(code, node)
        keeps_result = saved_as in saver.RESULTS or place.bug.cause == "result"
        if result is not None and keeps_result:
            title = f"Let backward keep `{_short(code.segment(node))}` itself, and go on with a copy"
            ways.append((title, result, sure))
        given = saver.given_copies(place.files, place.code, place.statement, place.path or "", code, node)
        if given is not None and index == 0:
            title = f"Give `{given.function}` a copy of `{place.path}`, for its backward to keep"
            safe = sure and given.sure
            edits_here = {place.code.path: given.edits}
            yield Candidate(title, "safe" if safe else "unsafe", edits_here, not safe)
        clones = saver.operand_clones(code, _in_doubt(code, node) if saved_as else node, names, saved_as)
        ways += [
            (f"Let backward keep a copy of `{_short(one.text)}`", [one.edit], sure and one.named) for one in clones
        ]
        named = [one for one in clones if one.named]
        if len(named) > 1:
            ways.insert(len(named), ("Let backward keep copies", [one.edit for one in named], sure))
        if len(named) < len(clones) > 1:  # an operand may share the memory under a name that nobody can see
            ways.append(("Let backward keep copies", [one.edit for one in clones], False))
        if not ways:
            return
        if index == 0:
            for title, edits, certain in ways[:5]:
                yield Candidate(title, "safe" if certain else "unsafe", {site.file: tuple(edits)}, not certain)
        sure = sure and ways[0][2]
        firsts.setdefault(site.file, [])
        firsts[site.file] += [edit for edit in ways[0][1] if edit not in firsts[site.file]]
    if len(place.bug.savers) > 1:
        together = {path: tuple(edits) for path, edits in firsts.items()}
        yield Candidate("Let backward keep copies", "safe" if sure else "unsafe", together, not sure)


def _in_doubt(code: Code, node: ast.expr | ast.stmt) -> ast.expr | ast.stmt:
    """A run knows what keeps a tensor no better than by the call before it: in `f(x) @ w` it may be the product."""
    statement = code.statement(node) if isinstance(node, ast.Call) else None
    return statement if isinstance(statement, ast.Assign | ast.Return | ast.Expr | ast.AnnAssign) else node


def _writes_unseen(place: Place, site: Site) -> bool:
    """Does this operation write in a way that cannot be read from the source (`getattr(x, "add_")(1)`)? A copy would
    be written in the tensor's place."""
    here = [one for one in place.bug.writes if (one.file, one.line) == (site.file, site.line)]
    places = [place_at(place.files, place.bug, one) for one in here]
    return any(one is None or one.target is None for one in places)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."


def _leaf(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """An update goes under no_grad, a step of the computation makes a new tensor."""
    if _flagged_for_its_result(place):
        yield from (Candidate(title, "safe", edits) for title, edits in plain(place))
        return
    if place.target is None:  # a module that was built to write
        yield from _out_of_place(place, trusting=True)
        return
    intent = intent_of(place)
    if intent != "update":
        safety = "safe" if intent == "value" else "unsafe"
        for title, edits in plain(place):
            if _rebinding(place) != "no" or _only_leaf_elsewhere(place):
                yield Candidate(title, safety, edits)  # type: ignore[arg-type]
    own = place.statement.value if isinstance(place.statement, ast.Expr) else place.statement
    if isinstance(own, ast.Call) and target_of(own) is None:
        return  # the write is only a part of the statement
    edits_under = no_grad.wrapped(place.code, _together(place, neighbours))
    if edits_under is not None:
        safety = "safe" if intent == "update" else "unsafe"
        yield place.candidate("Update the parameter outside the graph", safety, edits_under)  # type: ignore[arg-type]


def _flagged_for_its_result(place: Place) -> bool:
    """`w = F.relu(self.w, inplace=True)`: a flag saves memory, it is not there to change a parameter.

    But where the parameter is read again below, one would expect it changed.
    """
    call = place.node
    if not isinstance(call, ast.Call) or _is_whole(place.statement, call):
        return False
    subject = call.args[0] if call.args and (place.target is None or has_flag(call)) else None
    return isinstance(subject, ast.Attribute) and not read_later(place.code, place.statement, ast.unparse(subject))


def _only_leaf_elsewhere(place: Place) -> bool:
    """A local name for a parameter that lives elsewhere: the parameter must not change, the name may."""
    if not isinstance(place.holder, ast.Name):
        return False
    name = place.holder.id
    return only_name(place.files, place.code, place.statement, name) and read_later(place.code, place.statement, name)


def _together(place: Place, neighbours: tuple[Bug, ...]) -> list[ast.stmt]:
    """The statement with those right behind it that have the same trouble."""
    block = place.code.block(place.statement)
    others = [
        place_at(place.files, bug, bug.writes[0])
        for bug in neighbours
        if bug.kind in ("leaf", "leaf-view") and bug.writes
    ]
    troubled = {
        other.statement
        for other in others
        if other is not None and other.code is place.code and intent_of(other) == "update"
    }
    found = [place.statement]
    for later in block[block.index(place.statement) + 1 :]:
        if later not in troubled:
            break
        found.append(later)
    return found


def _several_views(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    name = place.path
    if name is not None and "." not in name:
        edits = several_views.by_index(place.code, place.statement, name)
        if edits is not None:
            yield place.candidate(f"Take `{name}` by its index: that view may be written", "safe", edits)
        if several_views.handed_out_here(place.files, place.code, place.statement, name):
            yield from (Candidate(title, "safe", edits) for title, edits in plain(place))
            return
    yield from _out_of_place(place, trusting=True)


def _refused(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    if place.bug.kind == "nograd-view":
        yield from _view_with_grad(place)
    runs_forward = place.bug.kind == "expanded" and _writes_one_value(place) and not _refused_at_once(place)
    for candidate in _out_of_place(place, trusting=True):
        # Such a write reaches all that shares the memory, and only its backward is refused: a copy has other values.
        yield replace(candidate, safety="unsafe") if runs_forward else candidate
    made = place.bug.made_at
    code = place.files.code(made.file) if made is not None else None
    node = code.at(made) if code is not None and made is not None else None
    if code is None or node is None or made is None:
        return
    of = next((call for call in ast.walk(node) if isinstance(call, ast.Call) and class_name(call) == "Parameter"), None)
    if place.bug.kind == "expanded" and of is not None and of.args:
        end = code.span(of.args[0])[1]
        yield Candidate("Make the parameter of a copy", "safe", {made.file: (Edit(end, end, ".clone()"),)})
        return
    edits = saver.result_clone(code, node)
    if edits is not None:
        yield Candidate("Make a copy where the view is made", "unsafe", {made.file: tuple(edits)}, provable=True)


_FILLS = ("fill_", "zero_", "masked_fill_", "index_put_", "index_fill_", "fill_diagonal_", "tril_", "triu_")


def _refused_at_once(place: Place) -> bool:
    """Did a run end at the write itself, rather than in a backward?"""
    raised = place.bug.raised_at
    return raised is not None and any((raised.file, raised.line) == (one.file, one.line) for one in place.bug.writes)


def _writes_one_value(place: Place) -> bool:
    """A write that PyTorch lets through on expanded memory: by a mask or a list of indices, `fill_`, `zero_`."""
    call = place.statement.value if isinstance(place.statement, ast.Expr) else place.statement
    if isinstance(call, ast.Call):
        return isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS
    index = place.target.slice if isinstance(place.target, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    one_by_one = ast.Slice | ast.Constant | ast.UnaryOp
    return any(not (isinstance(part, one_by_one) or saver.is_number(place.code, part)) for part in parts if part)


def _view_with_grad(place: Place) -> Iterator[Candidate]:
    """The view is made outside of `no_grad`, so that what is written through it belongs to the graph."""
    code = place.code
    for made in bindings(code, place.statement, place.path) if place.path else ():
        block = code.parents.get(made) if made is not None else None
        if isinstance(made, ast.Assign) and isinstance(block, ast.With) and no_grad.is_no_grad(block):
            edits = no_grad.moved_out(code, block, made)
            if edits is not None:
                yield place.candidate("Make the view outside of `no_grad`", "safe", edits)


def _out_argument(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    call = place.node.value if isinstance(place.node, ast.Expr) else place.node
    named = None
    if isinstance(call, ast.Call):
        named = out_argument.into_a_name(place.files, place.code, call, place.statement)
    if named is not None:
        yield place.candidate(f"Bind the result to `{named[0]}` instead of writing into `out=`", "safe", named[1])
    yield from _refused(place, neighbours)


def _overlap(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """The operand that shares the target's memory gets a copy, or the index that does."""
    names = [place.path] if place.path else []
    index = place.target.slice if isinstance(place.target, ast.Subscript) else None
    if index is not None and ast.unparse(index) == place.path:
        end = place.code.span(index)[1]
        yield place.candidate(f"Index by a copy of `{place.path}`", "safe", [Edit(end, end, ".clone()")])
    for one in saver.operand_clones(place.code, place.node, names):
        if one.named:
            yield place.candidate(f"Read a copy of `{_short(one.text)}`", "safe", [one.edit])


def _detached(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    yield from _out_of_place(place)


def _shape_dtype(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A sum or a quotient may become a float; what is only bounded is to stay what it is."""
    bounds = _is_bounding(place.node)
    if not bounds:
        yield from _out_of_place(place)
    if place.target is not None and (place.bug.cause == "dtype" or "can't be cast" in place.bug.error):
        edits = cast.to_target(place.code, place.node, place.target)
        if edits is not None:
            yield place.candidate("Cast the update to the dtype of its target", "safe", edits)
    if bounds:
        yield from _out_of_place(place)


def _is_bounding(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
    return name.startswith(("clamp", "clip"))


def _stepped(files: Files, bug: Bug, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Another order of steps, forwards and backwards, or a detach: a run must show what it keeps.

    Safe is only to compute a loss, with all that it is made from, after the step of another one, and to put off an
    update that takes no gradient until the backward that is next.
    """
    alike = [bug, *(other for other in neighbours if other.kind == "stepped")]
    all_of_them = [one for other in alike for one in step_order.moments(files, other)]
    for moment in step_order.moments(files, bug):
        if any(_goes_before(other, moment) for other in all_of_them):
            continue  # weights that are swapped in and back: the first of the two is what must wait
        code = files.code(moment.file)
        ways = list(step_order.reorderings(code, moment, files)) if code is not None else []
        provable = bug.raised_at is not None
        for way in ways if provable else sorted(ways, key=lambda way: not way.plain):
            safety: Safety = "safe" if way.plain and not provable else "unsafe"
            yield Candidate(way.title, safety, {way.file or moment.file: tuple(way.edits)}, provable, way.keeps)


def _goes_before(other: Moment, moment: Moment) -> bool:
    """Is the other an earlier update by hand before the same backward?"""
    both_by_hand = not moment.by_optimizer and not other.by_optimizer
    same = (other.file, other.backward_line) == (moment.file, moment.backward_line)
    return both_by_hand and same and other.step_line < moment.step_line < moment.backward_line


def _kept_weights(files: Files, bug: Bug) -> Iterator[Candidate]:
    """Weights that are averaged, scaled or swapped by hand: backward may keep copies of the old ones.

    An update by gradients is a step of a training, whose order is what is wrong.
    """
    places = [place_at(files, bug, site) for site in bug.writes]
    by_hand = [one for one in places if one is not None and one.target is not None and not _takes_gradients(one)]
    if bug.raised_at is None or not places or len(by_hand) < len(places):
        return
    for candidate in _copies(by_hand[0]):
        yield replace(candidate, safety="unsafe", provable=True)


def _takes_gradients(place: Place) -> bool:
    function = place.code.function(place.statement)
    return backward_first.takes_gradients(place.code, function if isinstance(function, ast.stmt) else place.statement)


def _silent_data(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    yield from _copies(place)
    for moment in step_order.moments(place.files, place.bug):
        code = place.files.code(moment.file)
        earlier = backward_first.backward_first(code, moment) if code is not None and not moment.by_optimizer else None
        if earlier is not None:
            safety: Safety = "safe" if earlier.plain and not place.bug.from_run else "unsafe"
            edits = {moment.file: tuple(earlier.edits)}
            yield Candidate("Go backward before the write", safety, edits, provable=True, keeps="gradients")


def _silent_alias(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    if place.target is not None:
        for edits in silent.own_array(place.code, place.statement, place.target):
            yield place.candidate("Give the array memory of its own", "safe", edits)
    own: dict[str, tuple[Edit, ...]] = {}
    for site, _ in place.bug.savers:
        code = place.files.code(site.file)
        node = code.at(site) if code is not None else None
        found = silent.own_tensors(code, node) if code is not None and node is not None else []
        own[site.file] = tuple(dict.fromkeys((*own.get(site.file, ()), *found)))
    if own and all(own.values()):
        yield Candidate("Give the tensor memory of its own", "safe", own)
    yield from _copies(place)


def _silent_other(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    if place.bug.cause == "gradient":
        edits = silent.returned_gradient(place.code, place.node, place.statement)
        if edits is not None:
            yield place.candidate("Return a new gradient from the hook", "safe", edits)
    if place.bug.cause == "state-dict":
        for edits in silent.kept_state(place.code):
            yield place.candidate("Keep a deep copy of the state", "safe", edits)
    if place.bug.cause == "recomputed":
        yield from _saved(place, neighbours)
    yield from _kept(place)
    yield from _lost(place)


def _lost(place: Place) -> Iterator[Candidate]:
    """Gradients that nobody uses, or that two leaves share."""
    bug, code, statement = place.bug, place.code, place.statement
    if bug.cause == "shared gradient":
        edits = silent.own_gradient(code, statement)
        if edits is not None:
            yield place.candidate("Assign a copy of the gradient", "safe", edits)
    if bug.cause == "shallow":
        for edits in silent.deep_copies(code):  # one may be meant to follow the other: only a run shows that
            yield place.candidate("Make a deep copy", "safe" if bug.from_run else "unsafe", edits)
    if bug.cause == "lost":
        edits = silent.changed_parameter(code, statement)
        if edits is not None:  # only a run has shown that the new one has the shape of the old one
            yield place.candidate("Change the parameter itself", "safe" if bug.from_run else "unsafe", edits)
        line = bug.optimizer_line
        edits = silent.optimizer_later(code, statement, line) if line is not None else None
        if edits is not None:
            yield place.candidate("Make the optimizer afterwards", "safe", edits)


def _kept(place: Place) -> Iterator[Candidate]:
    """What is kept by reference: a copy of it."""
    cause, code = place.bug.cause, place.code
    name = place.bug.tensor or place.path or ""
    if cause == "many":
        for edits in silent.own_entries(code):
            yield place.candidate("Make a tensor for each entry", "safe", edits)
    if cause in ("kept", "kept gradient"):
        for edits in silent.kept_copies(code, name):
            yield place.candidate("Append copies", "safe", edits)
    if cause in ("copy", "state-dict"):
        for edits in silent.kept_parameters(code):
            yield place.candidate("Keep copies of the parameters", "safe", edits)
    if cause == "ctx":
        for edits in silent.copied_in_ctx(code):
            yield place.candidate("Keep a copy for the backward", "safe", edits)
    written = place.target
    while isinstance(written, ast.Subscript):
        written = written.value
    if cause == "function gradient" and isinstance(written, ast.Name):
        edits = silent.copied_gradient(code, place.statement, written.id)
        yield place.candidate("Write a copy of the gradient", "safe", edits)
    if cause == "repeated":
        added = silent.accumulated(code, place.statement)
        if added is not None:
            yield place.candidate("Add for each index", "safe", added)


def _inference(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    names = [name for name in (place.bug.tensor, place.path) if name]
    if place.bug.cause == "saved" or "saved for backward" in place.bug.error or place.target is None:
        clones = saver.operand_clones(place.code, place.node, names)
        for one in [clone for clone in clones if clone.named][:1] or clones[:3]:
            yield place.candidate(
                f"Clone `{_short(one.text)}`, which was made under inference_mode", "safe", [one.edit]
            )
        return
    yield from _refused(place, neighbours)


_BY_KIND: dict[str, Callable[[Place, tuple[Bug, ...]], Iterator[Candidate]]] = {
    "saved": _saved,
    "leaf": _leaf,
    "leaf-view": _leaf,
    "multi-view": _several_views,
    "nograd-view": _refused,
    "custom-view": _refused,
    "expanded": _refused,
    "overlap": _overlap,
    "out-arg": _out_argument,
    "inference": _inference,
    "shape-dtype": _shape_dtype,
    "detached": _detached,
    "underivable": _refused,
    "silent-data": _silent_data,
    "silent-alias": _silent_alias,
    "silent-other": _silent_other,
}
