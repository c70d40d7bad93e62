"""A copy for the backward: the write stays, and the operation that saved the tensor saves a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from outplace.model import Site
from outplace.repair.facts.aliases import facts_of_value, span_of
from outplace.repair.facts.bug import Candidate
from outplace.repair.facts.location import Place, place_at
from outplace.repair.forms import saver
from outplace.repair.plan.out_of_place import Title
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import flat


def copies_for_backward(place: Place) -> Iterator[Candidate]:
    """`x.clone() * y`, at each site that saved the tensor. Several savers get their copies together.

    A run has seen that each of several savers needs its copy. So one copy alone is no safe repair then.
    """
    sure, several = not _uses_checkpoints(place.code), place.bug.from_run and len(place.bug.savers) > 1
    copies: dict[str, list[Edit]] = {}
    alone: list[Candidate] = []
    for index, (site, saved_as) in enumerate(place.bug.savers):
        code = place.files.code(site.file)
        node = code.at(site) if code is not None else None
        if code is None or node is None or _writes_invisibly(place, site):
            break
        if index == 0:
            alone += _copy_for_function(place, code, node, sure and not several)
        ways = list(_ways(place, code, node, saved_as))
        if not ways:
            break
        if index == 0:
            alone += (
                _candidate(way.title, {site.file: way.edits}, sure and way.sure and not several, way.operand)
                for way in ways[:5]
            )
        sure = sure and ways[0].sure
        edits = copies.setdefault(site.file, [])
        edits += [edit for edit in ways[0].edits if edit not in edits]
    else:
        if len(place.bug.savers) > 1:
            edits_of_all = {path: tuple(edits) for path, edits in copies.items()}
            alone.insert(0 if several else len(alone), _candidate("Let backward keep copies", edits_of_all, sure))
    yield from alone


def _candidate(title: Title, edits: dict[str, tuple[Edit, ...]], sure: bool, operand: str = "") -> Candidate:
    """Safe if sure; else a run can verify it."""
    return Candidate(title, "safe" if sure else "unsafe", edits, not sure, operand=operand)


def _copy_for_function(place: Place, code: Code, node: ast.AST, sure: bool) -> Iterator[Candidate]:
    """`f(x.clone())`, if a function saves its argument."""
    arguments = saver.given_copies(place.files, place.code, place.statement, place.path or "", code, node)
    if arguments is not None:
        title = f"Give `{arguments.function}` a copy of `{place.path}`, for its backward to keep"
        yield _candidate(title, {place.code.path: arguments.edits}, sure and arguments.sure, place.path or "")


def _ways(place: Place, code: Code, node: ast.expr | ast.stmt, saved_as: str) -> Iterator[_Way]:
    """The ways to give the backward of one operation a copy, the best first."""
    keeps_result = saved_as in saver.RESULTS or (place.bug.from_run and place.bug.cause == "result")
    if keeps_result:
        yield from _result_copy(code, node)
    followed = None if keeps_result else _followed_copy(place, code, node)
    if followed is not None:
        yield followed
        return
    doubtful = saved_as and place.bug.from_run
    yield from _operand_copies(place, code, _node_or_statement(code, node) if doubtful else node, saved_as)


class _Way(NamedTuple):
    """A way to give the backward of one operation a copy."""

    title: Title
    edits: tuple[Edit, ...]
    sure: bool
    operand: str = ""
    """The expression that is copied."""


def _names(place: Place) -> list[str]:
    """The names of the written tensor, and then the names that may share its memory."""
    written = [name for name in (place.bug.tensor, place.path, place.target and ast.unparse(place.target)) if name]
    shared = {place.path, *place.facts.names} if place.path else set()
    return [*written, *sorted(shared - set(written))]


def _uses_checkpoints(code: Code) -> bool:
    """Does the file call `checkpoint`? It saves the arguments of its block, wherever the block uses them."""
    return any(called_name(call) in ("checkpoint", "checkpoint_sequential") for call in code.every(ast.Call))


def _result_copy(code: Code, node: ast.expr | ast.stmt) -> Iterator[_Way]:
    edits = saver.result_clone(code, node)
    if edits is not None:
        text = code.segment(node)
        yield _Way(f"Let backward keep `{short(text)}` itself, and go on with a copy", tuple(edits), True, text)


def _followed_copy(place: Place, code: Code, node: ast.expr | ast.stmt) -> _Way | None:
    """A copy of each operand that the analysis has followed to the written memory, under whatever name."""
    kept = saver.kept_operands(code, node, place.trail)
    if not kept:
        return None
    edits = tuple(edit for operand in kept for edit in code.cloned(operand))
    sure = not any(_is_written_there(place, code, operand) for operand in kept)
    if len(kept) > 1:
        return _Way("Let backward keep copies", edits, sure)
    text = code.segment(kept[0])
    return _Way(f"Let backward keep a copy of `{short(text)}`", edits, sure, text)


def _is_written_there(place: Place, code: Code, operand: ast.expr) -> bool:
    """Is the operand written where it is given, too, and read later? `nn.ReLU(inplace=True)` would write the copy."""
    facts = facts_of_value(place.files, code, operand, until_written=True)
    return facts.reached and facts.may_rebind == "no"


def _operand_copies(place: Place, code: Code, node: ast.expr | ast.stmt, saved_as: str) -> Iterator[_Way]:
    """A copy of each operand that may be the tensor; of all that have its name; of all. Lists and dicts have none."""
    found = saver.operand_clones(code, node, _names(place), saved_as)
    clones = [clone for clone in found if not place.files.inquiry.containers(span_of(code, clone.operand))]
    named = [clone for clone in clones if clone.named]
    single = [
        _Way(f"Let backward keep a copy of `{short(clone.text)}`", (clone.edit,), clone.named, clone.text)
        for clone in clones
    ]
    yield from single[: len(named)]
    if len(named) > 1:
        yield _Way("Let backward keep copies", tuple(clone.edit for clone in named), True)
    yield from single[len(named) :]
    if len(named) < len(clones) > 1:  # an operand may share the memory under an unknown name
        yield _Way("Let backward keep copies", tuple(clone.edit for clone in clones), False)


def _node_or_statement(code: Code, node: ast.expr | ast.stmt) -> ast.expr | ast.stmt:
    """Is it unsure what saved the tensor? A run knows only the call before it: in `f(x) @ w` it may be the product."""
    statement = code.statement(node) if isinstance(node, ast.Call) else None
    return statement if isinstance(statement, ast.Assign | ast.Return | ast.Expr | ast.AnnAssign) else node


def _writes_invisibly(place: Place, site: Site) -> bool:
    """Does this operation write in a way that the source does not show (`getattr(x, "add_")(1)`)?

    It would write the copy instead of the tensor.
    """
    here = [write for write in place.bug.writes if (write.file, write.line) == (site.file, site.line)]
    places = [place_at(place.files, place.bug, item) for item in here]
    return any(item is None or (item.target is None and not _assigns_to_parts(item.statement)) for item in places)


def _assigns_to_parts(statement: ast.stmt) -> bool:
    """`self.h[i], self.c[i] = cell(x)`: does it assign to parts of several tensors?"""
    targets = flat(statement.targets) if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript) for target in targets)


def short(text: str) -> str:
    """A shortened text, for a title."""
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."
