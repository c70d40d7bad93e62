"""A copy for the backward: the write stays, and the operation that saved the tensor saves a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.model import Safety, Site
from outplace.repair.facts.aliases import shared_names
from outplace.repair.facts.bug import Candidate
from outplace.repair.facts.location import Place, place_at
from outplace.repair.forms import saver
from outplace.repair.plan.out_of_place import Title
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit


def copies_for_backward(place: Place) -> Iterator[Candidate]:
    """`x.clone() * y`, at each site that saved the tensor."""
    written = [name for name in (place.bug.tensor, place.path, place.target and ast.unparse(place.target)) if name]
    shared = shared_names(place.files, place.code, place.statement, place.path) if place.path else set()
    names = [*written, *sorted(shared - set(written))]
    firsts: dict[str, list[Edit]] = {}
    # A checkpoint saves the arguments of its block, wherever the block uses them.
    sure = "checkpoint(" not in place.code.text
    for index, (site, saved_as) in enumerate(place.bug.savers):
        code = place.files.code(site.file)
        node = code.at(site) if code is not None else None
        if code is None or node is None or _writes_unseen(place, site):
            return
        ways: list[tuple[Title, list[Edit], bool, str]] = []
        result = saver.result_clone(code, node)
        keeps_result = saved_as in saver.RESULTS or place.bug.cause == "result"
        if result is not None and keeps_result:
            title = f"Let backward keep `{short(code.segment(node))}` itself, and go on with a copy"
            ways.append((title, result, sure, code.segment(node)))
        given = saver.given_copies(place.files, place.code, place.statement, place.path or "", code, node)
        if given is not None and index == 0:
            title = f"Give `{given.function}` a copy of `{place.path}`, for its backward to keep"
            safe = sure and given.sure
            edits_here = {place.code.path: given.edits}
            yield Candidate(title, "safe" if safe else "unsafe", edits_here, not safe, operand=place.path or "")
        clones = saver.operand_clones(code, _in_doubt(code, node) if saved_as else node, names, saved_as)
        ways += [
            (f"Let backward keep a copy of `{short(clone.text)}`", [clone.edit], sure and clone.named, clone.text)
            for clone in clones
        ]
        named = [clone for clone in clones if clone.named]
        if len(named) > 1:
            ways.insert(len(named), ("Let backward keep copies", [item.edit for item in named], sure, ""))
        if len(named) < len(clones) > 1:  # an operand may share the memory under an unknown name
            ways.append(("Let backward keep copies", [clone.edit for clone in clones], False, ""))
        if not ways:
            return
        if index == 0:
            for title, edits, certain, operand in ways[:5]:
                safety: Safety = "safe" if certain else "unsafe"
                yield Candidate(title, safety, {site.file: tuple(edits)}, not certain, operand=operand)
        sure = sure and ways[0][2]
        firsts.setdefault(site.file, [])
        firsts[site.file] += [edit for edit in ways[0][1] if edit not in firsts[site.file]]
    if len(place.bug.savers) > 1:
        together = {path: tuple(edits) for path, edits in firsts.items()}
        yield Candidate("Let backward keep copies", "safe" if sure else "unsafe", together, not sure)


def _in_doubt(code: Code, node: ast.expr | ast.stmt) -> ast.expr | ast.stmt:
    """Is it unsure what saved the tensor? A run knows only the call before it: in `f(x) @ w` it may be the product."""
    statement = code.statement(node) if isinstance(node, ast.Call) else None
    return statement if isinstance(statement, ast.Assign | ast.Return | ast.Expr | ast.AnnAssign) else node


def _writes_unseen(place: Place, site: Site) -> bool:
    """Does this operation write in a way that the source does not show (`getattr(x, "add_")(1)`)?

    It would write the copy instead of the tensor.
    """
    here = [write for write in place.bug.writes if (write.file, write.line) == (site.file, site.line)]
    places = [place_at(place.files, place.bug, item) for item in here]
    return any(item is None or item.target is None for item in places)


def short(text: str) -> str:
    """A shortened text, for a title."""
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."
