"""Walks a syntax tree and inserts marks: before statements, and where control returns to a caller."""

# ruff: noqa: D102 - what `visit_X` does is visit an X

from __future__ import annotations

import ast

from outplace.runtime.instrument.marks import AT, BACK, CAUGHT
from outplace.runtime.instrument.operations import Operations
from outplace.runtime.instrument.syntax import (
    docstring_and_futures,
    hands_on,
    is_idle,
    is_range,
    needs_mark,
    paired_networks,
    spans_lines,
)


class Marker(Operations):
    """The half of the marker that handles blocks. `Operations` handles the inside of statements."""

    def __init__(self, filename: str) -> None:
        super().__init__(filename)
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self._loops: list[ast.For | ast.AsyncFor | None] = []
        """The loops around, innermost last; None for one that needs no mark before its next iteration."""

    # -- statements -------------------------------------------------------------------------------------------

    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        marked: list[ast.stmt] = []
        for statement in statements:
            marked += self._before(statement)
            marked.append(self._statement(statement))
        return marked

    def _before(self, statement: ast.stmt) -> list[ast.stmt]:
        """The call before a statement."""
        marks: list[ast.stmt] = []
        if needs_mark(statement):
            for_caller = bool(self._functions) and hands_on(self._functions[-1], statement)
            mark = self.call(BACK, where=statement) if for_caller else self.mark(statement)
            marks.append(ast.copy_location(ast.Expr(mark), statement))
        if (isinstance(statement, ast.Return) and statement.value is None) or isinstance(statement, ast.Raise):
            # As a statement of its own, because an async generator may not return a value. A raised exception may also
            # end inside a caller's statement: StopIteration in `sum(numbers)`, AttributeError in `hasattr(x, "y")`.
            marks.append(ast.copy_location(ast.Expr(self.call(BACK, where=statement)), statement))
        if isinstance(statement, ast.AugAssign):
            marks += self.before_augmented(statement)
        if isinstance(statement, ast.Continue):
            marks += self._next_round(statement)
        return marks

    def _statement(self, statement: ast.stmt) -> ast.stmt:
        outer, self._long_statement = self._long_statement, spans_lines(statement)
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
        head, rest = docstring_and_futures(node.body)
        node.body = head + self._body(rest)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        self._scope.append(node.name)
        outer, self._in_class_body = self._in_class_body, True
        head, rest = docstring_and_futures(node.body)
        node.body = head + self._body(rest)
        self._in_class_body = outer
        self._scope.pop()
        return node

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        self.visit(node.args)
        self._scope.append(node.name)
        self._functions.append(node)
        outer, self._in_class_body = self._in_class_body, False
        head, rest = docstring_and_futures(node.body)
        node.body = head + self._body(rest)
        if not (rest and isinstance(rest[-1], ast.Return | ast.Raise)):
            where = rest[-1] if rest else head[-1]
            end = ast.Expr(self.call(BACK, where=where))
            node.body.append(ast.fix_missing_locations(ast.copy_location(end, where)))
        self._in_class_body = outer
        self._functions.pop()
        self._scope.pop()
        return node

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def _for(self, node: ast.For | ast.AsyncFor) -> ast.For | ast.AsyncFor:
        pair = paired_networks(node)
        node.target, node.iter = self.visit(node.target), self.visit(node.iter)
        for method, which in zip(pair or (), ("first", "second"), strict=False):
            method.value = self.keep(method.value, f"{which} of a pair")
        self._loops.append(None if is_range(node.iter) else node)
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
        return [] if loop is None else [ast.copy_location(ast.Expr(self.mark(loop)), where)]

    def visit_While(self, node: ast.While) -> ast.While:
        # The condition runs again after each iteration, when the last mark is one of the body's.
        marked = not is_idle(node.test)
        mark = self.mark(node.test) if marked else None
        self._loops.append(None)
        self.generic_visit(node)
        self._loops.pop()
        if mark is not None:
            node.test = ast.copy_location(ast.BoolOp(ast.Or(), [mark, node.test]), node.test)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        # A program that catches the error itself still gets the diagnosis, on the exception it caught.
        self.generic_visit(node)
        caught = ast.Expr(self.call(CAUGHT, where=node.body[0]))
        node.body.insert(0, ast.copy_location(caught, node.body[0]))
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return node  # annotations stay unchanged: they may be read as text

    def visit_TypeAlias(self, node: ast.AST) -> ast.AST:
        return node  # it is evaluated only on demand

    # -- where a function returns control ---------------------------------------------------------------------

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if node.value is not None:
            node.value = self.call(BACK, self.visit(node.value), where=node.value)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        if is_idle(node.body):
            return node
        self.visit(node.args)
        self._scope.append("<lambda>")
        outer, self._in_class_body = self._in_class_body, False
        mark = self.mark(node.body)
        node.body = self._marked_then_back(mark, self.visit(node.body))
        self._in_class_body = outer
        self._scope.pop()
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.GeneratorExp:
        # It may be consumed far away from its source line.
        if is_idle(node.elt):
            self.generic_visit(node)
            return node
        outer, self._in_class_body = self._in_class_body, False
        mark = self.mark(node.elt)
        node.elt = self._marked_then_back(mark, self.visit(node.elt))
        self._in_class_body = outer
        node.generators = [self.visit(part) for part in node.generators]
        return node

    def _marked_then_back(self, mark: ast.expr, value: ast.expr) -> ast.expr:
        # `back(mark=None, value)`: the mark is an argument, so it runs before the value is computed.
        call = self.call(BACK, where=value)
        call.keywords = [
            ast.copy_location(ast.keyword("_mark", mark), value),
            ast.copy_location(ast.keyword("value", value), value),
        ]
        return call

    def visit_Yield(self, node: ast.Yield) -> ast.expr:
        number = self.number(node)
        value = self.visit(node.value) if node.value is not None else ast.copy_location(ast.Constant(None), node)
        if isinstance(node.value, ast.Name):  # who takes all of `yield x` has a list of one tensor
            value = self.keep(value, "append")
        node.value = self.call(BACK, value, where=node)
        return self.call(AT, node, number, where=node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
        number = self.number(node)
        self.generic_visit(node)
        return self.call(AT, node, number, where=node)

    def visit_Await(self, node: ast.Await) -> ast.expr:
        number = self.number(node)
        self.generic_visit(node)
        return self.call(AT, node, number, where=node)
