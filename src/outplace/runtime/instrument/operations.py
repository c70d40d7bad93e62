"""Marks inside a statement: for operations in statements over several lines, and for writes to arrays and stores."""

# ruff: noqa: D102 - what `visit_X` does is visit an X

from __future__ import annotations

import ast

from outplace.knowledge.by_hand import ARRAY_WRITING_FUNCTIONS, ARRAY_WRITING_METHODS
from outplace.knowledge.written import attribute_of, written_by
from outplace.runtime.instrument.calls import Calls
from outplace.runtime.instrument.marks import AT, ATTRIBUTE, COMPILE, INDEX, ITEM, LEAF, OUT, OWNER, PAIR, PART
from outplace.runtime.instrument.syntax import (
    compares,
    is_one_item,
    makes_leaf,
    may_be_one,
    names_one_thing,
    same_place,
)

_LIBRARIES = frozenset({"np", "numpy", "torch"})
_KEEPING_METHODS = frozenset({"append", "appendleft", "fromkeys"})


class Operations(Calls):
    """The half of the marker that handles expressions and assignments."""

    # -- assignments ------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        written = written_by(node.value) if isinstance(node.value, ast.Call) else None
        self.generic_visit(node)
        if written is not None:
            self._show_owner(written)
        return node

    def _show_owner(self, written: ast.expr) -> None:
        """Passes on the `layer` of `layer.weight.data.normal_()`: if its weight is computed, the write is lost."""
        attribute = attribute_of(written)
        if attribute is not None and attribute.attr not in ("grad", "_grad"):
            name = ast.copy_location(ast.Constant(attribute.attr), attribute)
            attribute.value = self.call(OWNER, attribute.value, name, where=attribute.value)

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        added = len(node.targets) == 1 and same_place(node.targets[0], node.value)
        self.generic_visit(node)
        stored = node.value if isinstance(node.value, ast.Name) else None
        for target in node.targets:
            self._mark_target(target, stored=stored)
            if added and isinstance(target, ast.Subscript):
                self._mark_index(target)
        node.value = self._kept(node.targets[0], node.value)
        return node

    def _kept(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """Wraps the value that is assigned to an attribute of a ctx or to `.grad`."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            if not any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts)):
                value.elts = [self._kept(*pair) for pair in zip(target.elts, value.elts, strict=True)]
        elif isinstance(target, ast.Attribute):
            if isinstance(target.value, ast.Name) and target.value.id == "ctx":
                return self.keep(value, "ctx")
            if target.attr in ("grad", "_grad"):
                return self.keep(value, "grad")
        return value

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AugAssign:
        number = self.number(node) if self._long_statement else None
        self.generic_visit(node)
        self._mark_target(node.target, augmented=True)
        if number is not None:
            node.value = self.call(AT, node.value, number, where=node.value)
        if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
            self._mark_index(node.target)
        return node

    def before_augmented(self, node: ast.AugAssign) -> list[ast.stmt]:
        """`a += v` may write a numpy array, so the hook sees it first. Only plain names are read twice."""
        target = node.target
        if isinstance(target, ast.Name):
            shown = self.call(ITEM, ast.copy_location(ast.Name(target.id, ast.Load()), target), where=target)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = ast.copy_location(ast.Name(target.value.id, ast.Load()), target.value)
            shown = self.call(ATTRIBUTE, owner, ast.copy_location(ast.Constant(target.attr), target), where=target)
        else:
            return []
        return [ast.copy_location(ast.Expr(shown), node)]

    def _mark_target(self, target: ast.expr, augmented: bool = False, stored: ast.Name | None = None) -> None:
        """The hook sees the target before it is written.

        `a[i] = v` may write a numpy array that shares memory with a tensor. `z.real = v` writes a tensor without a
        call. The hook also sees a `stored` value that has a name, because a list or a dict stores no copy of it.
        """
        if isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
            self._show_owner(target.value)
        if isinstance(target, ast.Subscript):
            also = [] if stored is None else [ast.copy_location(ast.Name(stored.id, ast.Load()), target.value)]
            target.value = self.call(ITEM, target.value, *also, where=target.value)
        elif isinstance(target, ast.Attribute) and target.attr in ("real", "imag"):
            way = (target.attr, augmented)
            told = (ast.copy_location(ast.Constant(part), target.value) for part in way)
            target.value = self.call(PART, target.value, *told, where=target.value)
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._mark_target(part)

    def _mark_index(self, target: ast.Subscript) -> None:
        """`y[index] += v` with a repeated index adds only once, so a hook sees an index that is a tensor."""
        index = target.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        slices = [isinstance(part, ast.Slice | ast.Constant) for part in parts]
        if not any(slices):
            target.slice = self.call(INDEX, index, where=index)
        elif isinstance(index, ast.Tuple) and slices.count(False) == 1:
            place = slices.index(False)
            index.elts[place] = self.call(INDEX, index.elts[place], where=index.elts[place])

    # -- calls and operators ----------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.expr:
        number = self._number_of_operation(node)
        is_leaf = makes_leaf(node)
        compared = may_be_one(*node.args[:2]) if compares(node) else None
        self.generic_visit(node)
        if compared:
            self._mark_pair(node.args, compared)
        for keyword in node.keywords:
            if keyword.arg == "out" and not isinstance(keyword.value, ast.Constant):
                item = self.call(ITEM, keyword.value, where=keyword.value)
                keyword.value = self.call(OUT, item, where=keyword.value)
        if isinstance(node.func, ast.Attribute):
            self._mark_method(node, node.func)
        elif isinstance(node.func, ast.Name) and node.func.id == "compile":
            node.func = self.call(COMPILE, node.func, where=node.func)
        elif isinstance(node.func, ast.Name) and node.func.id == "exec" and node.args:
            text, function = node.args[0], ast.copy_location(ast.Name("exec", ast.Load()), node.func)
            if not isinstance(text, ast.Starred):
                node.args[0] = self.call(COMPILE, text, function, where=text)
        if number is not None:
            self._mark_last_operand(node, number)
        return self.call(LEAF, node, where=node) if is_leaf else node

    def _mark_method(self, node: ast.Call, method: ast.Attribute) -> None:
        """Marks methods and functions that may write an array or store a tensor."""
        plain = bool(node.args) and not isinstance(node.args[0], ast.Starred)
        if method.attr in ARRAY_WRITING_METHODS and not (
            isinstance(method.value, ast.Name) and method.value.id in _LIBRARIES
        ):
            method.value = self.call(ITEM, method.value, where=method.value)
        if method.attr in ARRAY_WRITING_FUNCTIONS and plain:
            node.args[0] = self.call(ITEM, node.args[0], where=node.args[0])
        elif method.attr == "copy_" and plain:
            method.value = self.keep(method.value, "copy to")
            node.args[0] = self.keep(node.args[0], "copied")
        elif method.attr in _KEEPING_METHODS and plain and not isinstance(node.args[-1], ast.Starred | ast.Constant):
            is_literal = isinstance(node.args[-1], ast.Tuple | ast.List | ast.ListComp | ast.Dict | ast.DictComp)
            node.args[-1] = self.keep(node.args[-1], "items" if is_literal else method.attr)

    def _mark_last_operand(self, node: ast.Call, number: ast.Constant) -> None:
        if node.keywords and node.keywords[-1].arg is not None:
            node.keywords[-1].value = self.call(AT, node.keywords[-1].value, number, where=node.keywords[-1].value)
        elif node.args and not isinstance(node.args[-1], ast.Starred) and not node.keywords:
            node.args[-1] = self.call(AT, node.args[-1], number, where=node.args[-1])
        elif isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
            node.func.value = self.call(AT, node.func.value, number, where=node.func.value)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        number = self._number_of_operation(node)
        many = isinstance(node.op, ast.Mult) and any(map(is_one_item, (node.left, node.right)))
        compared = may_be_one(node.left, node.right) if isinstance(node.op, ast.Sub) else None
        self.generic_visit(node)
        if compared:
            sides = [node.left, node.right]
            self._mark_pair(sides, compared)
            node.left, node.right = sides
        if number is not None:
            node.right = self.call(AT, node.right, number, where=node.right)
        return self.keep(node, "list") if many else node

    def _mark_pair(self, values: list[ast.expr], names: tuple[ast.expr, ast.expr]) -> None:
        """The hook sees two values that meet. The one that is a plain name is read twice."""
        which = 1 if isinstance(names[0], ast.Name) else 0
        name = names[1 - which]
        if isinstance(name, ast.Name):
            again = ast.copy_location(ast.Name(name.id, ast.Load()), values[which])
            values[which] = self.call(PAIR, values[which], again, where=values[which])

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        many = names_one_thing(node)
        self.generic_visit(node)
        return self.keep(node, "list") if many else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        number = self._number_of_operation(node)
        self.generic_visit(node)
        if number is not None:
            node.operand = self.call(AT, node.operand, number, where=node.operand)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        number = self._number_of_operation(node) if isinstance(node.ctx, ast.Load) else None
        self.generic_visit(node)
        if number is not None:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if any(isinstance(part, ast.Slice | ast.Starred) for part in parts):
                node.value = self.call(AT, node.value, number, where=node.value)
            else:
                node.slice = self.call(AT, node.slice, number, where=node.slice)
        return node

    def _number_of_operation(self, node: ast.expr) -> ast.Constant | None:
        """Inside a statement of several lines each operation gets a mark, so that its own line is reported."""
        if not self._long_statement:
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            line = node.func.end_lineno or node.lineno
            column = (node.func.end_col_offset or 0) - len(node.func.attr)
            return self.number(node, line, column if line != node.lineno else node.col_offset)
        return self.number(node)
