"""A table that a loop fills and reads, `out[:, t] = f(out[:, t - 1])`: a list, stacked after the loop.

The source shows which entries there are and in which order. Only a run can show their shapes and dtypes, because an
assignment to an entry also broadcasts and casts. So each rewrite comes with a second one that checks them while it
runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outplace.knowledge.traits import has
from outplace.repair.facts.aliases import facts_of_value
from outplace.repair.syntax.calls import MethodCall, method_call
from outplace.repair.syntax.code import Code, root_of
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import names_in, read_later
from outplace.repair.syntax.moves import whole_lines

_Linear = tuple[str, int]
"""`T - 1` as `("T", -1)`."""


@dataclass(frozen=True)
class Stacked:
    """The edits, and the edits that also check that each entry equals the table's entry."""

    names: tuple[str, ...]
    edits: tuple[Edit, ...]
    checking: tuple[Edit, ...]


@dataclass(frozen=True)
class _Table:
    """A table before its rewrite: where it is made, one of its entries, and the changes inside the loop."""

    name: str
    dim: int
    row: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class _Entry:
    """How one entry is made: the sizes of the table (or the tensor that has them), the text, its parts."""

    sizes: list[ast.expr] | str
    text: str
    filled: bool
    maker: str
    arguments: tuple[str, ...]
    keywords: tuple[str, ...]

    def of(self, number: str) -> str:
        """An entry whose elements are all one number."""
        if not any(word.startswith("dtype=") for word in self.keywords) and number.lstrip("-").isdigit():
            number += ".0"  # torch.full makes integers of integers
        if self.arguments == ("()",) and self.maker == "torch.full":
            return f"torch.tensor({', '.join([number, *self.keywords])})"
        return f"{self.maker}({', '.join([*self.arguments, number, *self.keywords])})"


def as_lists(files: Files, code: Code, writes: Iterable[ast.stmt]) -> Stacked | None:
    """The tables that these statements write, all in one loop, as lists; None if none of them can be one."""
    loops = {id(loop): loop for write in writes for loop in code.loops(write)[:1]}
    written = {ast.unparse(target.value) for write in writes if (target := _target(write)) is not None}
    loop = next(iter(loops.values()), None)
    if len(loops) != 1 or not isinstance(loop, ast.For) or loop.orelse or not whole_lines(code, loop):
        return None
    if len(code.lines) == loop.end_lineno:  # no line follows
        return None
    tables = [table for name in sorted(written) if (table := _Reader(files, code, loop, name).table()) is not None]
    if not tables:
        return None
    stacks = [_stack(code, item) for item in tables if read_later(code, loop, item.name)]
    checks = [_check(item) for item in tables]
    inside = [*code.importing("torch"), *(edit for item in tables for edit in item.edits)]
    plain, checking = _behind(code, loop, stacks), _behind(code, loop, [*checks, *stacks])
    return Stacked(tuple(item.name for item in tables), (*inside, plain), (*inside, checking))


def _behind(code: Code, loop: ast.For, lines: list[str]) -> Edit:
    """Lines before the line that follows a loop: other edits may end at the end of the loop."""
    start = code.offset((loop.end_lineno or loop.lineno) + 1, 0)
    return Edit(start, start, "".join(f"{code.indent(loop)}{text}\n" for text in lines))


def _stack(code: Code, table: _Table) -> str:
    dim = f", dim={table.dim}" if table.dim else ""
    return f"{table.name} = {code.module_name('torch') or 'torch'}.stack({table.name}{dim})"


def _check(table: _Table) -> str:
    facts = "({0}.shape, {0}.dtype, {0}.device)"
    same = f"{facts.format('one')} == {facts.format('row')}"
    return f"assert all({same} for row in [{table.row}] for one in {table.name})"


class _NoList(Exception):
    """The table is not filled entry by entry, or other code needs it as a tensor."""


class _Reader:
    """Reads how one name is used in and before one loop."""

    def __init__(self, files: Files, code: Code, loop: ast.For, name: str) -> None:
        self.files, self.code, self.loop, self.name = files, code, loop, name

    def table(self) -> _Table | None:
        """The table; None if it cannot be a list."""
        try:
            return self._table()
        except _NoList:
            return None

    def _table(self) -> _Table:
        code, loop = self.code, self.loop
        result, between = self._made()
        self.writes = list(self._once(loop.body))
        self.dim, (counter, ahead) = self._place(self.writes[0].targets[0])
        self.entry = self._one_entry(result.value)
        start, stop = self._rounds(counter)
        if self._sum(stop, ahead) != self._size():
            raise _NoList
        self._check_names_stay(result, counter, [*between, loop])
        edits = [*self._beginning(result, between, start + ahead)]
        for statement in self.writes:
            if self._place(statement.targets[0]) != (self.dim, (counter, ahead)):
                raise _NoList
            self._check_never_written(statement.value)
            edits += _around(code, statement, f"{self.name}.append(", ")")
        edits += self._reads(counter, start, ahead)
        return _Table(self.name, self.dim, self.entry.text, tuple(edits))

    # -- before the loop ----------------------------------------------------------------------------------------------

    def _made(self) -> tuple[ast.Assign, list[ast.stmt]]:
        """Where the table is made, in the block of the loop, and the statements from there to the loop."""
        block = self.code.block(self.loop)
        before = block[: block.index(self.loop)]
        for index in range(len(before) - 1, -1, -1):
            one = before[index]
            if isinstance(one, ast.Assign) and [ast.unparse(target) for target in one.targets] == [self.name]:
                if not whole_lines(self.code, one):
                    break
                return one, before[index + 1 :]
        raise _NoList

    def _one_entry(self, value: ast.expr) -> _Entry:
        """How one entry is made, from the call that makes the table."""
        call = method_call(value) if isinstance(value, ast.Call) else None
        if call is None or any(keyword.arg not in ("dtype", "device") for keyword in call.call.keywords):
            raise _NoList
        if has(call.name, "made_like"):
            if len(call.call.args) == 1 and isinstance(call.call.args[0], ast.Name | ast.Attribute):
                return self._entry_like(call)
        elif has(call.name, "one_number") or has(call.name, "uninitialised"):
            return self._entry_of_sizes(call)
        raise _NoList

    def _keywords(self, call: ast.Call) -> tuple[str, ...]:
        return tuple(f"{keyword.arg}={self.code.segment(keyword.value)}" for keyword in call.keywords)

    def _entry_like(self, call: MethodCall) -> _Entry:
        """One entry of `torch.zeros_like(x)`: `torch.zeros_like(x[:, 0])`."""
        tensor, library = self.code.segment(call.call.args[0]), self.code.segment(call.receiver)
        keywords = self._keywords(call.call)
        like = f"{tensor}[{'..., 0' if self.dim < 0 else ', '.join([':'] * self.dim + ['0'])}]"
        text = f"{library}.{call.name}({', '.join([like, *keywords])})"
        return _Entry(tensor, text, has(call.name, "one_number"), f"{library}.full_like", (like,), keywords)

    def _entry_of_sizes(self, call: MethodCall) -> _Entry:
        """One entry of `torch.zeros(n, m)`: `torch.zeros(n)`."""
        library, keywords = self.code.segment(call.receiver), self._keywords(call.call)
        full = "new_full" if call.name.startswith("new_") else "full"
        sizes, fill = (call.call.args[:1], call.call.args[1:]) if call.name == full else (call.call.args, [])
        in_tuple = len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List)
        sizes = list(sizes[0].elts) if in_tuple else list(sizes)  # type: ignore[attr-defined]
        if not -len(sizes) <= self.dim < len(sizes) or any(isinstance(size, ast.Starred) for size in sizes):
            raise _NoList
        rest = [self.code.segment(size) for i, size in enumerate(sizes) if i != self.dim % len(sizes)]
        shape = f"({rest[0]},)" if len(rest) == 1 else f"({', '.join(rest)})"
        words = [shape] if in_tuple or not rest else rest
        text = f"{library}.{call.name}({', '.join([*words, *map(self.code.segment, fill), *keywords])})"
        return _Entry(sizes, text, has(call.name, "one_number"), f"{library}.{full}", (shape,), keywords)

    def _beginning(self, made: ast.Assign, between: list[ast.stmt], count: int) -> Iterator[Edit]:
        """The entries before the loop begins: those written before it, or the initial ones."""
        code, first = self.code, list(self._written_before(between))
        if (first and len(first) != count) or (not first and count and not self.entry.filled):
            raise _NoList
        if not first:
            entry = self.entry.text
            entries = f"[{entry}]" if count == 1 else f"[{entry} for _ in range({count})]"
            yield code.replaced(made.value, entries if count else "[]")
            return
        for item in first:
            if _is_number(item):
                yield code.replaced(item.value, self.entry.of(code.segment(item.value)))
        if any("#" in line for line in code.lines[made.lineno - 1 : made.end_lineno]):  # the comment stays
            yield code.replaced(made.value, "[]")
        else:
            yield Edit(code.offset(made.lineno, 0), code.offset((made.end_lineno or 0) + 1, 0), "")
            yield from _around(code, first.pop(0), f"{self.name} = [", "]")
        for item in first:
            yield from _around(code, item, f"{self.name}.append(", ")")

    def _written_before(self, between: list[ast.stmt]) -> Iterator[ast.Assign]:
        """The first entries, if they are written in their order before the loop."""
        for index, write in enumerate(item for item in between if _mentions(item, self.name)):
            if not isinstance(write, ast.Assign) or len(write.targets) != 1 or _mentions(write.value, self.name):
                raise _NoList
            if self._place(write.targets[0]) != (self.dim, ("", index)):
                raise _NoList
            self._check_never_written(write.value)
            yield write

    def _check_names_stay(self, made: ast.Assign, counter: str, later: list[ast.stmt]) -> None:
        """Checks that the sizes and the counter are not rebound, and that no function sees the list."""
        names = names_in(made.value)
        stored = [
            node.id
            for item in later
            for node in ast.walk(item)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        if names.intersection(stored) or stored.count(counter) != 1:
            raise _NoList
        scope = self.code.scope(made)
        inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        for node in ast.walk(scope):
            if isinstance(node, ast.Global | ast.Nonlocal) and self.name in node.names:
                raise _NoList
            if isinstance(node, inner) and node is not scope and _mentions(node, self.name):
                raise _NoList

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _rounds(self, counter: str) -> tuple[int, _Linear]:
        """The first value of the counter, and the one after its last."""
        loop, over = self.loop, self.loop.iter
        if not isinstance(over, ast.Call) or over.keywords:
            raise _NoList
        function, target = ast.unparse(over.func), loop.target
        counted = function == "enumerate" and len(over.args) == 1 and isinstance(target, ast.Tuple)
        if counted and ast.unparse(target.elts[0]) == counter:  # type: ignore[attr-defined]
            return 0, (f"{ast.unparse(over.args[0])}.size(0)", 0)
        if function != "range" or ast.unparse(target) != counter or not 1 <= len(over.args) <= 2:
            raise _NoList
        start = self._linear(over.args[0]) if len(over.args) == 2 else ("", 0)
        if start[0] or start[1] < 0:
            raise _NoList
        return start[1], self._linear(over.args[-1])

    def _once(self, block: list[ast.stmt]) -> Iterator[ast.Assign]:
        """The writes of an iteration: one on each path through it."""
        found = 0
        for statement in block:
            if _leaves(statement):
                raise _NoList
            target = _target(statement)
            if target is not None and ast.unparse(target.value) == self.name:
                assert isinstance(statement, ast.Assign)
                found += 1
                yield statement
            elif any(_stores(node, self.name) for node in ast.walk(statement)):
                if not isinstance(statement, ast.If):
                    raise _NoList
                found += 1
                yield from self._once(statement.body)
                yield from self._once(statement.orelse)
        if found != 1:
            raise _NoList

    def _reads(self, counter: str, start: int, ahead: int) -> Iterator[Edit]:
        """Each read of an earlier entry, without the other dimensions, and of the table's size in the loop header."""
        targets = {statement.targets[0] for statement in self.writes}
        for node in ast.walk(self.loop):
            if not isinstance(node, ast.Name) or node.id != self.name or self.code.parents[node] in targets:
                continue
            item = self.code.parents[node]
            size = next((part for part in (self.code.parents[item], item) if self._is_size(part)), None)
            if isinstance(size, ast.expr):
                yield self._size_instead(size)
            elif isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Load):
                yield self._earlier_entry(item, counter, start, ahead)
            else:
                raise _NoList

    def _size_instead(self, size: ast.expr) -> Edit:
        """The size as in the call that makes the table: a list has no `size()`."""
        if size not in ast.walk(self.loop.iter) or isinstance(self.entry.sizes, str):
            raise _NoList
        return self.code.replaced(size, self.code.segment(self.entry.sizes[self.dim]))

    def _earlier_entry(self, item: ast.Subscript, counter: str, start: int, ahead: int) -> Edit:
        """`out[:, t - 1, 0]` as `out[t - 1][0]`, if that entry is already in the list."""
        dim, (name, offset), rest = self._parts(item)
        around = next((entry for entry in self.loop.body if item in ast.walk(entry)), self.loop)
        written_at = max(statement.lineno for statement in self.writes)
        earlier = offset < ahead or (offset == ahead and around.lineno > written_at)
        from_the_end = self._least_counter(item, counter, start) + offset < 0
        if dim != self.dim or name != counter or not earlier or from_the_end:
            raise _NoList
        elements = item.slice.elts if isinstance(item.slice, ast.Tuple) else [item.slice]
        return self.code.replaced(item, f"{self.name}[{self.code.segment(elements[self.dim])}]{rest}")

    def _least_counter(self, node: ast.AST, counter: str, start: int) -> int:
        """The smallest value of the counter where this node runs."""
        least, child = start, node
        for above in self.code.above(node):
            if above is self.loop:
                break
            if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
                body = above.body if isinstance(above.body, list) else [above.body]
                bound = _bound(above.test, counter, child in body, least)
                least = max(least, bound)
            child = above
        return least

    # -- indices and sizes --------------------------------------------------------------------------------------------

    def _place(self, target: ast.expr) -> tuple[int, _Linear]:
        """The dimension and the position of an entry that is written as a whole."""
        if not isinstance(target, ast.Subscript) or ast.unparse(target.value) != self.name:
            raise _NoList
        dim, place, rest = self._parts(target)
        if rest:
            raise _NoList
        return dim, place

    def _parts(self, item: ast.Subscript) -> tuple[int, _Linear, str]:
        """The dimension and the position of an entry, and what is then taken from it."""
        elements = list(item.slice.elts) if isinstance(item.slice, ast.Tuple) else [item.slice]
        if any(isinstance(element, ast.Starred) for element in elements):
            raise _NoList
        last = _is_rest(elements[0]) and len(elements) == 2
        dim = -1 if last else next((i for i, one in enumerate(elements) if not _is_full(one)), len(elements))
        if dim == len(elements):
            raise _NoList
        place = elements.pop(dim)
        if isinstance(place, ast.Slice) or _is_rest(place):
            raise _NoList
        taken = any(not (_is_full(element) or _is_rest(element)) for element in elements)
        rest = f"[{', '.join(self.code.segment(element) for element in elements)}]" if taken else ""
        return dim, self._linear(place), rest

    def _linear(self, node: ast.expr) -> _Linear:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return "", node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            one, other = self._linear(node.left), self._linear(node.right)
            if not other[0]:
                return self._sum(one, other[1] if isinstance(node.op, ast.Add) else -other[1])
            if not one[0] and isinstance(node.op, ast.Add):
                return self._sum(other, one[1])
        if self._is_size(node) and hasattr(self, "entry"):
            return self._size()
        return _size_text(node), 0

    def _is_size(self, node: ast.AST) -> bool:
        """`out.size(1)`, `out.shape[1]`, `len(out)`: the number of entries."""
        dim = getattr(self, "dim", None)
        return isinstance(node, ast.expr) and _size_text(node) == f"{self.name}.size({dim})"

    def _size(self) -> _Linear:
        if isinstance(self.entry.sizes, str):
            return f"{self.entry.sizes}.size({self.dim})", 0
        return self._linear(self.entry.sizes[self.dim])

    def _sum(self, one: _Linear, number: int) -> _Linear:
        return one[0], one[1] + number

    def _check_never_written(self, value: ast.expr) -> None:
        """Is the value never written afterwards? An entry of a list is the tensor itself, not a copy."""
        facts = facts_of_value(self.files, self.code, value)
        if facts.written or facts.unclear:
            raise _NoList


def _is_number(statement: ast.Assign) -> bool:
    value = statement.value.operand if isinstance(statement.value, ast.UnaryOp) else statement.value
    return isinstance(value, ast.Constant)


def _target(statement: ast.stmt) -> ast.Subscript | None:
    """`out[:, t]` of `out[:, t] = v`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            return target
    return None


def _stores(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return ast.unparse(root_of(node)) == name
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def _leaves(statement: ast.stmt) -> bool:
    """May it leave the iteration or the loop early?"""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if not isinstance(node, ast.For | ast.AsyncFor | ast.While):
            waiting.extend(ast.iter_child_nodes(node))
    return any(isinstance(node, ast.Return) for node in ast.walk(statement))


def _around(code: Code, statement: ast.Assign, before: str, after: str) -> list[Edit]:
    """`out[t] = v` as `out.append(v)`. The value keeps its text, with parentheses and comments."""
    start, end = code.span(statement)
    equals = code.text.index("=", code.span(statement.targets[0])[1])
    value = equals + 1 + len(code.text[equals + 1 : end]) - len(code.text[equals + 1 : end].lstrip())
    return [Edit(start, value, before), Edit(end, end, after)]


def _bound(test: ast.expr, counter: str, holds: bool, least: int) -> int:
    """What a test says about a counter of at least `least`: `t > 0` if it holds, `t == 0` if it does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _bound(test.operand, counter, not holds, least)
    if isinstance(test, ast.Name) and test.id == counter:
        return max(least, 1) if holds else least
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or ast.unparse(test.left) != counter:
        return least
    number = test.comparators[0]
    if not isinstance(number, ast.Constant) or type(number.value) is not int:
        return least
    kind = type(test.ops[0])
    if (kind, holds) in ((ast.NotEq, True), (ast.Eq, False)):
        return least + 1 if number.value == least else least
    known = {(ast.Gt, True): 1, (ast.GtE, True): 0, (ast.Eq, True): 0, (ast.Lt, False): 0, (ast.LtE, False): 1}
    return number.value + known[kind, holds] if (kind, holds) in known else least


def _is_full(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _size_text(node: ast.expr) -> str:
    """`len(x)`, `x.shape[0]` and `x.size(0)` are the same number."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and len(node.args) == 1:
        return f"{ast.unparse(node.args[0])}.size(0)"
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return f"{ast.unparse(node.value.value)}.size({ast.unparse(node.slice)})"
    return ast.unparse(node)
