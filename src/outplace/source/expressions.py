"""Evaluates expressions: operators, lists and dicts, comprehensions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.source import holders, hypotheses, python_model, torch_model, unseen
from outplace.source.attributes import _attribute as attribute_of
from outplace.source.attributes import _name as name_of
from outplace.source.calls import _call as run_call
from outplace.source.decisions import decision
from outplace.source.frames import Frame
from outplace.source.graph import Path
from outplace.source.joins import join, join_arms, options
from outplace.source.values import (
    MOST_ITEMS,
    NONE,
    PLAIN,
    UNKNOWN,
    Bound,
    Choice,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Layer,
    Scope,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _constant(interpreter: Interpreter, node: ast.Constant) -> Value:
    return Const(node.value)


def _subscript(interpreter: Interpreter, node: ast.Subscript) -> Value:
    holder = interpreter.eval(node.value)
    key = interpreter.eval(node.slice)
    if isinstance(holder, Choice):
        return interpreter.each(holder, lambda option: _item(interpreter, option, key, node))
    return _item(interpreter, holder, key, node)


def _item(interpreter: Interpreter, holder: Value, key: Value, node: ast.Subscript) -> Value:
    if isinstance(holder, Tensor):
        if interpreter.assumes and isinstance(key, Const) and isinstance(key.value, str):
            return hypotheses.named_part(interpreter, holder, key.value)
        return torch_model.get_item(interpreter, holder, key, node)
    if isinstance(holder, Instance):
        getter = holder.cls.find("__getitem__")
        if isinstance(getter, Function):
            return interpreter.call_function(getter, [holder, key], {}, node)
        children = torch_model.children_of(holder)
        return join(list(children.values())) if children else UNKNOWN
    if isinstance(holder, unseen.Unseen):
        return holder.part("[]")
    found = python_model.item(holder, key)
    if isinstance(holder, (Items, Dictionary)) and holder.stale:
        holders.check_item(interpreter, holder, found)
    is_module = interpreter.assumes and isinstance(holder, Layer)
    return unseen.inside(interpreter, holder, found) if is_module else found


def _slice(interpreter: Interpreter, node: ast.Slice) -> Value:
    parts = [interpreter.eval(part) if part is not None else NONE for part in (node.lower, node.upper, node.step)]
    if all(isinstance(part, Const) for part in parts):
        return Const(slice(*(part.value for part in parts)))  # type: ignore[attr-defined]
    return Bound("slice", _slice_length(node))


def _slice_length(node: ast.Slice) -> Value:
    """Returns the number of elements in `t : t + 1` or `t - 1 : t`, which is the same for each `t`."""
    lower, upper = node.lower, node.upper
    if lower is None or upper is None or node.step is not None:
        return PLAIN
    for longer, other, sign in ((upper, lower, ast.Add), (lower, upper, ast.Sub)):
        if not isinstance(longer, ast.BinOp) or not isinstance(longer.op, sign):
            continue
        if isinstance(longer.right, ast.Constant) and ast.unparse(longer.left) == ast.unparse(other):
            return Const(longer.right.value)
    return PLAIN


def _lambda(interpreter: Interpreter, node: ast.Lambda) -> Value:
    return interpreter.make_function(node, "<lambda>")


def _if_exp(interpreter: Interpreter, node: ast.IfExp) -> Value:
    known, branch, turned = decision(interpreter, node.test)
    if known is not None:
        return interpreter.eval(node.body if known else node.orelse)
    path, values = interpreter.tape.path, list[Value]()
    arms: list[Path] = [((branch, int(turned)),), ((branch, int(not turned)),)]
    for arm, part in zip(arms, (node.body, node.orelse), strict=True):
        interpreter.tape.path = path + arm
        values.append(interpreter.eval(part))
    interpreter.tape.path = path
    return join_arms(values, arms)


def _bool_op(interpreter: Interpreter, node: ast.BoolOp) -> Value:
    values = []
    for part in node.values:
        value = interpreter.eval(part)
        known = interpreter.truth(value)
        decides = known is (not isinstance(node.op, ast.And))
        if decides and isinstance(value, Const) and isinstance(value.value, bool):
            return value  # whatever the operands before it are
        if known is None or decides:
            values.append(value)
        if decides:
            break
    else:
        if known is not None:
            values.append(value)
    return join(values)


def _compare(interpreter: Interpreter, node: ast.Compare) -> Value:
    left, rights = interpreter.eval(node.left), [interpreter.eval(item) for item in node.comparators]
    return _compared(interpreter, node, left, rights[0]) if len(rights) == 1 else PLAIN


def _compared(interpreter: Interpreter, node: ast.Compare, left: Value, right: Value) -> Value:
    either = (*options(left), *options(right))
    if len(either) > 2 and all(isinstance(option, Const) for option in either):
        return interpreter.each(
            left, lambda one: interpreter.each(right, lambda other: _compared(interpreter, node, one, other))
        )
    return python_model.compare(interpreter, node.ops[0], left, right, node)


def _bin_op(interpreter: Interpreter, node: ast.BinOp) -> Value:
    left, right = interpreter.eval(node.left), interpreter.eval(node.right)
    if left is right and interpreter.frame.scope.stale:
        holders.check_pair(interpreter, [node.left, node.right], [left, right])
    return interpreter.binary(node.op, left, right, node)


def binary(interpreter: Interpreter, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    """`left op right`."""
    if isinstance(left, Choice) or isinstance(right, Choice):
        return interpreter.each(
            left, lambda one: interpreter.each(right, lambda other: binary(interpreter, op, one, other, node))
        )
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return torch_model.binary(interpreter, op, left, right, node)
    return python_model.binary(op, left, right)


def _unary_op(interpreter: Interpreter, node: ast.UnaryOp) -> Value:
    value = interpreter.eval(node.operand)
    if isinstance(node.op, ast.Not):
        known = interpreter.truth(value)
        return PLAIN if known is None else Const(not known)
    return interpreter.each(value, lambda one: _unary(interpreter, node, one))


def _unary(interpreter: Interpreter, node: ast.UnaryOp, value: Value) -> Value:
    if isinstance(value, Tensor):
        return torch_model.run_op(
            interpreter, "neg" if isinstance(node.op, ast.USub) else "bitwise_not", [value], {}, node
        )
    return python_model.unary(node.op, value)


def _sequence(interpreter: Interpreter, node: ast.List | ast.Tuple | ast.Set) -> Value:
    items: list[Value] = []
    rest: Value | None = None
    copied: list[Value] = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            value = interpreter.eval(element.value)
            copied.append(value)
            items.extend(python_model.spread(value))
            if isinstance(value, Items):
                rest = value.rest if rest is None else rest
            elif not python_model.is_exact(value):
                rest = UNKNOWN
        else:
            items.append(interpreter.eval(element))
    sequence = Items(items, "tuple" if isinstance(node, ast.Tuple) else "list", rest)
    for original in copied:
        holders.link(sequence, original)
    return sequence


def _dict(interpreter: Interpreter, node: ast.Dict) -> Value:
    mapping = Dictionary()
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = interpreter.eval(value_node)
        if key_node is None:
            if isinstance(value, Dictionary):
                mapping.items.update(value.items)
                holders.link(mapping, value)
            continue
        key = python_model.as_key(interpreter.eval(key_node))
        if isinstance(key, Const) and python_model.hashable(key.value):
            mapping.items[key.value] = value
        else:
            mapping.rest = value if mapping.rest is None else join([mapping.rest, value])
    return mapping


def _comprehension(
    interpreter: Interpreter, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> Value:
    inner = Frame(interpreter.frame.module, Scope(interpreter.frame.scope), interpreter.frame.name, None)
    result: list[Value] = []
    keys: list[Value] = []

    def element() -> None:
        if isinstance(node, ast.DictComp):
            keys.append(python_model.as_key(interpreter.eval(node.key)))
            result.append(interpreter.eval(node.value))
        else:
            result.append(interpreter.eval(node.elt))

    exact = [True]
    copied: list[Value] = []

    def generate(depth: int) -> None:
        if depth == len(node.generators):
            element()
            return
        generator = node.generators[depth]
        iterable = interpreter.eval(generator.iter)
        if _copies_items(node):
            copied.append(iterable)
        exact[0] &= python_model.is_exact(iterable)
        for item in python_model.iterate(interpreter, iterable, node, most=8):
            interpreter.require_time()
            if len(result) > MOST_ITEMS:
                return
            interpreter.bind(generator.target, item, node)
            known = [interpreter.truth(interpreter.eval(test)) for test in generator.ifs]
            exact[0] &= None not in known
            if False not in known:
                generate(depth + 1)

    interpreter.in_frame(inner, lambda: generate(0))
    if isinstance(node, ast.DictComp):
        pairs = [(key.value, value) for key, value in zip(keys, result, strict=True) if isinstance(key, Const)]
        whole = len(pairs) == len(result) and exact[0]
        collected: Dictionary | Items = Dictionary(dict(pairs), None if whole else join(result))
    else:
        collected = Items(result, "list", None if exact[0] else join(result))
    for original in copied:
        holders.link(collected, original)
    return collected


def _copies_items(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
    """True for a copy such as `[x for x in xs]` or `{key: x for key, x in xs.items()}`."""
    element, generator = node.value if isinstance(node, ast.DictComp) else node.elt, node.generators[0]
    bound = generator.target.elts if isinstance(generator.target, ast.Tuple) else [generator.target]
    last = bound[-1]
    same = isinstance(element, ast.Name) and isinstance(last, ast.Name) and element.id == last.id
    return same and len(node.generators) == 1 and not generator.ifs


def _joined_str(interpreter: Interpreter, node: ast.JoinedStr) -> Value:
    """Returns a constant if all parts are known. Modules are often set and looked up by such names."""
    text: str | None = ""
    for part in node.values:
        value = interpreter.eval(part.value if isinstance(part, ast.FormattedValue) else part)
        formatted = isinstance(part, ast.FormattedValue) and (part.format_spec is not None or part.conversion != -1)
        if not isinstance(value, Const) or not isinstance(value.value, (str, int)) or formatted:
            text = None
        text = None if text is None else f"{text}{value.value}"  # type: ignore[attr-defined]
    return PLAIN if text is None else python_model.computed(text)


def _named_expr(interpreter: Interpreter, node: ast.NamedExpr) -> Value:
    value = interpreter.eval(node.value)
    interpreter.bind(node.target, value, node)
    return value


def _starred(interpreter: Interpreter, node: ast.Starred) -> Value:
    return interpreter.eval(node.value)


def _yield(interpreter: Interpreter, node: ast.Yield) -> Value:
    value = interpreter.eval(node.value) if node.value is not None else NONE
    frame = interpreter.frame
    if frame.at_yield is not None:
        run, frame.at_yield = frame.at_yield, None
        run(value)
        frame.at_yield = run
    else:
        frame.yields.append(value)
    return UNKNOWN


def _yield_from(interpreter: Interpreter, node: ast.YieldFrom) -> Value:
    interpreter.frame.yields.extend(python_model.spread(interpreter.eval(node.value)))
    return UNKNOWN


def _await(interpreter: Interpreter, node: ast.Await) -> Value:
    return interpreter.eval(node.value)


EXPRESSIONS: dict[type[ast.expr], Any] = {
    ast.Constant: _constant, ast.Name: name_of, ast.Attribute: attribute_of,
    ast.Subscript: _subscript, ast.Slice: _slice, ast.Call: run_call,
    ast.Lambda: _lambda, ast.IfExp: _if_exp, ast.BoolOp: _bool_op,
    ast.Compare: _compare, ast.BinOp: _bin_op, ast.UnaryOp: _unary_op,
    ast.List: _sequence, ast.Tuple: _sequence, ast.Set: _sequence,
    ast.Dict: _dict, ast.ListComp: _comprehension, ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension, ast.DictComp: _comprehension,
    ast.JoinedStr: _joined_str, ast.NamedExpr: _named_expr, ast.Starred: _starred,
    ast.Yield: _yield, ast.YieldFrom: _yield_from, ast.Await: _await,
}  # fmt: skip
