"""Puts marks into the user's own source, as it is imported: before each statement, and where a function returns.

The program stays what it is: no name is added to its modules or functions (the marks live in `builtins`), every line
and column keeps its place, and library code is not touched. Statements that cannot make an autograd node get no mark.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import contextlib
import functools
import gc
import importlib.machinery
import io
import runpy
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from outplace.runtime import record
from outplace.runtime.usercode import own_files

MARK, BACK, AT = "__outplace_mark__", "__outplace_back__", "__outplace_at__"
OUT, LEAF, ITEM, CAUGHT = "__outplace_out__", "__outplace_leaf__", "__outplace_item__", "__outplace_caught__"
ATTRIBUTE, INDEX, KEEP = "__outplace_attribute__", "__outplace_index__", "__outplace_keep__"

_ARRAY_METHODS = frozenset({"fill", "itemset", "partition", "put", "resize", "sort"})
_ARRAY_FUNCTIONS = frozenset(
    {"at", "copyto", "fill_diagonal", "nan_to_num", "place", "put", "put_along_axis", "putmask", "shuffle"}
)
"""What numpy has to write an array in place: methods of it, and functions whose first argument it is."""
_LIBRARIES = frozenset({"np", "numpy", "torch"})
_KEEPING_METHODS = frozenset({"append", "appendleft", "fromkeys"})


class Statement(NamedTuple):
    """A marked place: a statement, or an operation inside one that spans several lines."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str


STATEMENTS: list[Statement] = []


def _pass_on(value: object = None, *_: object, **__: object) -> object:
    return value


def _nothing(*_: object) -> None:
    return None


def publish() -> None:
    """Makes the marks known to instrumented code. Those that need torch are replaced when torch comes."""
    if not hasattr(builtins, MARK):
        put(**_idle)
        atexit.register(_retire)
    put(**_marks)


_idle: dict[str, Any] = {
    "OUT": _pass_on,
    "LEAF": _pass_on,
    "ITEM": _pass_on,
    "ATTRIBUTE": _nothing,
    "INDEX": _pass_on,
    "KEEP": _pass_on,
    "CAUGHT": _nothing,
}
"""Hooks that do nothing yet, or no longer."""

_marks: dict[str, Any] = {"MARK": record.mark, "BACK": record.back, "AT": record.at}


def heed_dynamo() -> None:
    """From now on the marks look whether Dynamo is reading them."""
    _marks.update(MARK=record.mark_unless_traced, BACK=record.back_unless_traced, AT=record.at_unless_traced)
    if hasattr(builtins, MARK):
        put(**_marks)


def put(**functions: Any) -> None:
    """Binds marks: `put(MARK=...)`."""
    for namespace in _namespaces():
        namespace.update({globals()[name]: function for name, function in functions.items()})


def _retire() -> None:
    """Python is about to end: from here on the marks are functions that need no module.

    Objects are still deleted, and their `__del__` run, while modules are being emptied.
    """
    put(MARK=_nothing, BACK=_pass_on, AT=_pass_on, **_idle)


@functools.cache
def _namespaces() -> tuple[dict[str, Any], ...]:
    """The built-in names; and the copy that Python made of them when it began and goes back to when it ends."""
    now = vars(builtins)
    copies = (
        namespace
        for namespace in gc.get_referrers(builtins.__build_class__)
        if type(namespace) is dict and namespace is not now and namespace.get("__name__") == "builtins"
    )
    return (now, *copies)


def add_marks(tree: ast.Module, filename: str) -> None:
    """Puts marks into a tree that is to be compiled as this file."""
    _Marker(filename).visit(tree)


def compile_marked(source: str | bytes, filename: str) -> CodeType:
    """Compiles source with marks in it; source that cannot be parsed raises what `compile` raises."""
    tree = ast.parse(source, filename, type_comments=False)
    add_marks(tree, filename)
    code: CodeType = compile(tree, filename, "exec", dont_inherit=True)
    return code


def compile_main(source: str | bytes, filename: str) -> CodeType:
    """Compiles the program itself: source that Python refuses is refused in Python's own words, all other runs."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return compile_marked(source, filename)
    # Python's own words for an error; and where the marks are too much (expressions of great depth), no marks.
    code: CodeType = compile(source, filename, "exec", dont_inherit=True)
    return code


def _is_idle(node: ast.expr | None) -> bool:
    """Can evaluating this expression not make a node? Names, constants, and what is built of them."""
    if node is None or isinstance(node, ast.Name | ast.Constant | ast.Lambda):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and _is_idle(node.operand)
    if isinstance(node, ast.BoolOp):
        return all(_is_idle(value) for value in node.values)
    if isinstance(node, ast.Compare):
        identity = all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
        return identity and all(_is_idle(value) for value in (node.left, *node.comparators))
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_idle(value) for value in node.elts)
    return False


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _needs_mark(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Pass | ast.Break | ast.Continue):
        return False
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = (*node.args.defaults, *node.args.kw_defaults)
        return bool(node.decorator_list) or not all(map(_is_idle, defaults))
    if isinstance(node, ast.Assign):
        return not (_is_idle(node.value) and all(isinstance(target, ast.Name) for target in node.targets))
    if isinstance(node, ast.Expr | ast.Return):
        return not _is_idle(node.value)
    if isinstance(node, ast.If):
        return not _is_idle(node.test)
    return not isinstance(node, ast.Try)


class _Marker(ast.NodeTransformer):
    def __init__(self, filename: str) -> None:
        self._file = filename
        self._scope: list[str] = []
        self._in_class_body = False
        self._long_statement = False
        self._loops: list[ast.For | ast.AsyncFor | None] = []
        """The loops around, innermost last; None for one that needs no mark before its next round."""

    # -- marks ------------------------------------------------------------------------------------------------

    def _number(self, node: ast.stmt | ast.expr, line: int | None = None, column: int | None = None) -> ast.Constant:
        function = ".".join(self._scope) if self._scope else "<module>"
        line = node.lineno if line is None else line
        column = node.col_offset if column is None else column
        end_line, end_column = node.end_lineno or line, node.end_col_offset or column
        if isinstance(node, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith | ast.If | ast.While | ast.ClassDef):
            header = _header_end(node)  # the mark is about the header; the body has marks of its own
            end_line, end_column = header.end_lineno or line, header.end_col_offset or column
        decorators = getattr(node, "decorator_list", None)
        if decorators:  # it is they who run, on lines of their own
            line, column = decorators[0].lineno, decorators[0].col_offset
            end_line, end_column = decorators[-1].end_lineno, decorators[-1].end_col_offset
        STATEMENTS.append(Statement(self._file, line, end_line, column, end_column, function))
        return ast.copy_location(ast.Constant(len(STATEMENTS) - 1), node)

    def _call(self, function: str, *arguments: ast.expr, where: ast.AST) -> ast.Call:
        callee: ast.expr = ast.copy_location(ast.Name(function, ast.Load()), where)
        if self._in_class_body:
            callee = self._as_global(callee, arguments, where)
        return ast.copy_location(ast.Call(callee, list(arguments), []), where)

    def _as_global(self, name: ast.expr, arguments: Sequence[ast.expr], where: ast.AST) -> ast.expr:
        # A class body looks names up in its own namespace first, and a metaclass may make that a strange one.
        # A lambda has no such namespace.
        letters = [f"v{index}" for index, _ in enumerate(arguments)]
        inner = ast.Call(name, [ast.Name(letter, ast.Load()) for letter in letters], [])
        parameters = ast.arguments([], [ast.arg(letter) for letter in letters], None, [], [], None, [])
        function = ast.Lambda(parameters, inner)
        for node in ast.walk(function):
            if isinstance(node, ast.expr | ast.arg):
                ast.copy_location(node, where)
        return function

    def _mark(self, node: ast.stmt | ast.expr) -> ast.Call:
        return self._call(MARK, self._number(node), where=node)

    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        marked: list[ast.stmt] = []
        for statement in statements:
            if _needs_mark(statement):
                marked.append(ast.copy_location(ast.Expr(self._mark(statement)), statement))
            if isinstance(statement, ast.Return) and statement.value is None:
                # As a statement of its own: an async generator may not return a value.
                marked.append(ast.copy_location(ast.Expr(self._call(BACK, where=statement)), statement))
            if isinstance(statement, ast.AugAssign):
                marked += self._before_augmented(statement)
            if isinstance(statement, ast.Continue):
                marked += self._next_round(statement)
            marked.append(self._statement(statement))
        return marked

    def _statement(self, statement: ast.stmt) -> ast.stmt:
        outer, self._long_statement = self._long_statement, _spans_lines(statement)
        result: ast.stmt = self.visit(statement)
        self._long_statement = outer
        return result

    # -- blocks -----------------------------------------------------------------------------------------------

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self._body(value))
            elif isinstance(value, list):
                value[:] = [self.visit(item) if isinstance(item, ast.AST) else item for item in value]
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    def visit_Module(self, node: ast.Module) -> ast.Module:
        head, rest = _docstring_and_futures(node.body)
        node.body = head + self._body(rest)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        self._scope.append(node.name)
        outer, self._in_class_body = self._in_class_body, True
        head, rest = _docstring_and_futures(node.body)
        node.body = head + self._body(rest)
        self._in_class_body = outer
        self._scope.pop()
        return node

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        self.visit(node.args)
        self._scope.append(node.name)
        outer, self._in_class_body = self._in_class_body, False
        head, rest = _docstring_and_futures(node.body)
        node.body = head + self._body(rest)
        if not (rest and isinstance(rest[-1], ast.Return | ast.Raise)):
            where = rest[-1] if rest else head[-1]
            end = ast.Expr(self._call(BACK, where=where))
            node.body.append(ast.fix_missing_locations(ast.copy_location(end, where)))
        self._in_class_body = outer
        self._scope.pop()
        return node

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def _for(self, node: ast.For | ast.AsyncFor) -> ast.For | ast.AsyncFor:
        node.target, node.iter = self.visit(node.target), self.visit(node.iter)
        self._loops.append(None if _is_range(node.iter) else node)
        ends_itself = isinstance(node.body[-1], ast.Return | ast.Raise | ast.Break | ast.Continue)
        node.body = self._body(node.body) + ([] if ends_itself else self._next_round(node))
        self._loops.pop()
        node.orelse = self._body(node.orelse)
        return node

    visit_For = _for
    visit_AsyncFor = _for

    def _next_round(self, where: ast.stmt) -> list[ast.stmt]:
        # The iterator runs again, and may make nodes: `for y in map(torch.exp, xs)`.
        loop = self._loops[-1]
        return [] if loop is None else [ast.copy_location(ast.Expr(self._mark(loop)), where)]

    def visit_While(self, node: ast.While) -> ast.While:
        # The condition runs again after each round, when the last mark is one of the body's.
        marked = not _is_idle(node.test)
        mark = self._mark(node.test) if marked else None
        self._loops.append(None)
        self.generic_visit(node)
        self._loops.pop()
        if mark is not None:
            node.test = ast.copy_location(ast.BoolOp(ast.Or(), [mark, node.test]), node.test)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        # A program that catches the error itself still gets the diagnosis, on the exception it caught.
        self.generic_visit(node)
        caught = ast.Expr(self._call(CAUGHT, where=node.body[0]))
        node.body.insert(0, ast.copy_location(caught, node.body[0]))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        for target in node.targets:
            self._mark_items(target)
        first = node.targets[0]
        if isinstance(first, ast.Attribute) and isinstance(first.value, ast.Name) and first.value.id == "ctx":
            node.value = self._keep(node.value, "ctx")
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AugAssign:
        self.generic_visit(node)
        self._mark_items(node.target)
        if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
            self._mark_index(node.target)
        return node

    def _before_augmented(self, node: ast.AugAssign) -> list[ast.stmt]:
        """`a += v` may write a numpy array: it is shown to us first. Nothing but plain names is read twice."""
        target = node.target
        if isinstance(target, ast.Name):
            shown = self._call(ITEM, ast.copy_location(ast.Name(target.id, ast.Load()), target), where=target)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = ast.copy_location(ast.Name(target.value.id, ast.Load()), target.value)
            shown = self._call(ATTRIBUTE, owner, ast.copy_location(ast.Constant(target.attr), target), where=target)
        else:
            return []
        return [ast.copy_location(ast.Expr(shown), node)]

    def _mark_index(self, target: ast.Subscript) -> None:
        """`y[index] += v` with the same index twice adds only once: an index that is a tensor is looked at."""
        index = target.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        slices = [isinstance(part, ast.Slice | ast.Constant) for part in parts]
        if not any(slices):
            target.slice = self._call(INDEX, index, where=index)
        elif isinstance(index, ast.Tuple) and slices.count(False) == 1:
            place = slices.index(False)
            index.elts[place] = self._call(INDEX, index.elts[place], where=index.elts[place])

    def _keep(self, value: ast.expr, way: str) -> ast.expr:
        """A value that is kept: in a context, in a list, many times over in a list."""
        return self._call(KEEP, value, ast.copy_location(ast.Constant(way), value), where=value)

    def _mark_items(self, target: ast.expr) -> None:
        """`a[i] = v` may write a numpy array that lies over a tensor: what it writes into is shown to us first."""
        if isinstance(target, ast.Subscript):
            target.value = self._call(ITEM, target.value, where=target.value)
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._mark_items(part)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return node  # annotations are left as they are: they may be read as text

    def visit_TypeAlias(self, node: ast.AST) -> ast.AST:
        return node  # it is evaluated when somebody asks for it

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    # -- where a function hands control back ------------------------------------------------------------------

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if node.value is not None:
            node.value = self._call(BACK, self.visit(node.value), where=node.value)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        if _is_idle(node.body):
            return node
        self.visit(node.args)
        self._scope.append("<lambda>")
        outer, self._in_class_body = self._in_class_body, False
        mark = self._mark(node.body)
        node.body = self._marked_then_back(mark, self.visit(node.body))
        self._in_class_body = outer
        self._scope.pop()
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.GeneratorExp:
        # It may be consumed far from where it is written.
        if _is_idle(node.elt):
            self.generic_visit(node)
            return node
        outer, self._in_class_body = self._in_class_body, False
        mark = self._mark(node.elt)
        node.elt = self._marked_then_back(mark, self.visit(node.elt))
        self._in_class_body = outer
        node.generators = [self.visit(part) for part in node.generators]
        return node

    def _marked_then_back(self, mark: ast.expr, value: ast.expr) -> ast.expr:
        # `back(mark=None, value)`: the mark is an argument, so it runs before the value is computed.
        call = self._call(BACK, where=value)
        call.keywords = [
            ast.copy_location(ast.keyword("_mark", mark), value),
            ast.copy_location(ast.keyword("value", value), value),
        ]
        return call

    def visit_Yield(self, node: ast.Yield) -> ast.expr:
        number = self._number(node)
        value = self.visit(node.value) if node.value is not None else ast.copy_location(ast.Constant(None), node)
        node.value = self._call(BACK, value, where=node)
        return self._call(AT, node, number, where=node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
        number = self._number(node)
        self.generic_visit(node)
        return self._call(AT, node, number, where=node)

    def visit_Await(self, node: ast.Await) -> ast.expr:
        number = self._number(node)
        self.generic_visit(node)
        return self._call(AT, node, number, where=node)

    # -- operations -------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.expr:
        number = self._operation(node)
        makes_leaf = _makes_leaf(node)
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg == "out" and not isinstance(keyword.value, ast.Constant):
                item = self._call(ITEM, keyword.value, where=keyword.value)
                keyword.value = self._call(OUT, item, where=keyword.value)
        if isinstance(node.func, ast.Attribute):
            self._mark_method(node, node.func)
        if number is not None:
            self._mark_last_operand(node, number)
        return self._call(LEAF, node, where=node) if makes_leaf else node

    def _mark_method(self, node: ast.Call, method: ast.Attribute) -> None:
        """Methods and functions that may write an array, or keep a tensor."""
        plain = bool(node.args) and not isinstance(node.args[0], ast.Starred)
        if method.attr in _ARRAY_METHODS and not (isinstance(method.value, ast.Name) and method.value.id in _LIBRARIES):
            method.value = self._call(ITEM, method.value, where=method.value)
        if method.attr in _ARRAY_FUNCTIONS and plain:
            node.args[0] = self._call(ITEM, node.args[0], where=node.args[0])
        elif method.attr == "copy_" and plain:
            method.value = self._keep(method.value, "copy to")
            node.args[0] = self._keep(node.args[0], "copied")
        elif method.attr in _KEEPING_METHODS and plain and not isinstance(node.args[-1], ast.Starred | ast.Constant):
            node.args[-1] = self._keep(node.args[-1], method.attr)

    def _mark_last_operand(self, node: ast.Call, number: ast.Constant) -> None:
        if node.keywords and node.keywords[-1].arg is not None:
            node.keywords[-1].value = self._call(AT, node.keywords[-1].value, number, where=node.keywords[-1].value)
        elif node.args and not isinstance(node.args[-1], ast.Starred) and not node.keywords:
            node.args[-1] = self._call(AT, node.args[-1], number, where=node.args[-1])
        elif isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
            node.func.value = self._call(AT, node.func.value, number, where=node.func.value)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        number = self._operation(node)
        many = isinstance(node.op, ast.Mult) and any(map(_is_one_item, (node.left, node.right)))
        self.generic_visit(node)
        if number is not None:
            node.right = self._call(AT, node.right, number, where=node.right)
        return self._keep(node, "list") if many else node

    def _operation(self, node: ast.Call | ast.BinOp) -> ast.Constant | None:
        """Inside a statement of several lines each operation is marked: the line that counts is its own."""
        if not self._long_statement:
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            line = node.func.end_lineno or node.lineno
            column = (node.func.end_col_offset or 0) - len(node.func.attr)
            return self._number(node, line, column if line != node.lineno else node.col_offset)
        return self._number(node)


def _is_one_item(node: ast.expr) -> bool:
    """Is it `[x]` or `(x,)`, whose multiple holds one thing many times?"""
    return isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Constant)


def _spans_lines(statement: ast.stmt) -> bool:
    """Does the statement itself (not the blocks inside it) go over several lines?"""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Try | ast.While | ast.If):
        return False
    if isinstance(statement, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        return (_header_end(statement).end_lineno or 0) > statement.lineno
    if hasattr(ast, "Match") and isinstance(statement, ast.Match):
        return False
    return (statement.end_lineno or 0) > statement.lineno


def _header_end(node: ast.stmt) -> ast.expr | ast.stmt:
    if isinstance(node, ast.For | ast.AsyncFor):
        return node.iter
    if isinstance(node, ast.With | ast.AsyncWith):
        return node.items[-1].optional_vars or node.items[-1].context_expr
    if isinstance(node, ast.If | ast.While):
        return node.test
    if isinstance(node, ast.ClassDef) and node.bases:
        return node.bases[-1]
    return ast.copy_location(ast.Pass(), node) if isinstance(node, ast.ClassDef) else node


def _makes_leaf(node: ast.Call) -> bool:
    """Is this a call that makes a leaf: `nn.Parameter(...)`, `torch.zeros(..., requires_grad=True)`?"""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "Parameter":
        return True
    for keyword in node.keywords:
        if keyword.arg == "requires_grad":
            return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    return False


def _docstring_and_futures(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Splits off what must stay first: the docstring and `from __future__` imports."""
    index = 0
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        index = 1
    while index < len(body) and isinstance(future := body[index], ast.ImportFrom) and future.module == "__future__":
        index += 1
    return body[:index], body[index:]


# -- imports ------------------------------------------------------------------------------------------------------


class MarkingFinder:
    """Finds the user's own modules and has them loaded with marks; leaves all others to the usual finders."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As in importlib; None hands the module to the next finder."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or spec.origin is None:
            return None
        if not own_files[spec.origin]:
            return None
        # It never reads or writes a .pyc: those hold the plain code. The loader stays what it is, a SourceFileLoader,
        # since programs may look at it. A module that cannot be compiled is left to it: the error is Python's own.
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            code = compile_marked(spec.loader.get_data(spec.origin), spec.origin)
            spec.loader.get_code = lambda fullname: code  # type: ignore[method-assign]
            return spec
        return None


def install_finder() -> None:
    """Puts the finder in front of the path finder (behind those for built-in and frozen modules)."""
    if MarkingFinder not in sys.meta_path:
        finders = sys.meta_path
        path_finder = importlib.machinery.PathFinder
        index = finders.index(path_finder) if path_finder in finders else len(finders)
        finders.insert(index, MarkingFinder)
        runpy._get_code_from_file = _read_code_with_marks  # type: ignore[attr-defined]


def remove_finder() -> None:
    """Takes the finder away; modules that are loaded keep their marks."""
    if MarkingFinder in sys.meta_path:
        sys.meta_path.remove(MarkingFinder)
        runpy._get_code_from_file = _read_code  # type: ignore[attr-defined]


_read_code: Any = runpy._get_code_from_file  # type: ignore[attr-defined]


def _read_code_with_marks(*arguments: Any) -> Any:
    """For `runpy.run_path`, by which launchers run scripts. It returns the code, before Python 3.12 also the name."""
    plain = _read_code(*arguments)
    code = plain[0] if isinstance(plain, tuple) else plain
    if own_files[code.co_filename]:
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            code = compile_marked(io.FileIO(arguments[-1]).readall(), code.co_filename)
    return (code, *plain[1:]) if isinstance(plain, tuple) else code
