"""Operations that would keep less memory. Advice only: they do not give the same bits for every input."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.reclaim.observe.recording import Operation, Recording, Tensor
from outplace.reclaim.observe.timeline import Change, Life
from outplace.reclaim.rules.holders import node_at, site_of
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.code import Code, same
from outplace.repair.syntax.files import Files

_PLAIN = ast.Name | ast.Call | ast.Attribute | ast.Subscript


class Hints:
    """All advice for one recording."""

    def __init__(self, recording: Recording, files: Files) -> None:
        self._recording = recording
        self._ran: dict[ast.AST, tuple[Code, list[int]]] = {}
        """The expressions of the user's code, and the operations by which each of them has made something new."""
        for number, operation in enumerate(recording.operations):
            place = recording.places[operation.place]
            is_new = operation.outputs and recording.storages[operation.outputs[0].storage].maker == number
            if operation.backward or not is_new or not place or (found := node_at(files, place[0])) is None:
                continue
            self._ran.setdefault(found[1], (found[0], []))[1].append(number)

    def suggestions(self) -> Iterator[Suggestion]:
        """All hints."""
        for node, (code, numbers) in self._ran.items():
            yield from self._blend(code, node, numbers)
            yield from self._relu(code, node, numbers)

    def _operations(self, node: ast.AST) -> list[Operation]:
        return [self._recording.operations[number] for number in self._ran.get(node, (None, []))[1]]

    # -- x + mask * (v - x) -------------------------------------------------------------------------------------------

    def _blend(self, code: Code, node: ast.AST, numbers: list[int]) -> Iterator[Suggestion]:
        """A blend makes two temporary tensors of x's size. `torch.where` makes none, but rounds differently."""
        parts = _parts_of_blend(node)
        if parts is None:
            return
        mask, value, x, product, difference = parts
        sums, products, differences = (self._operations(part) for part in (node, product, difference))
        if not len(sums) == len(products) == len(differences):
            return
        masks = [self._mask(*pair) for pair in zip(products, differences, strict=True)]
        if not masks or not all(masks):
            return  # `x + weight * (v - x)` is no choice between two, but something in between
        merged: dict[int, int] = {}
        for added, *parts_of_it in zip(sums, products, differences, strict=True):
            merged.update({item.outputs[0].storage: added.outputs[0].storage for item in parts_of_it})
        condition = code.segment(mask)
        if any(item is not None and item.dtype != "torch.bool" for item in masks):
            condition = f"{condition if isinstance(mask, _PLAIN) else f'({condition})'}.bool()"
        assert isinstance(node, ast.expr)
        yield Suggestion(
            "advice",
            site_of(code, node),
            code.segment(node),
            f"torch.where({condition}, {code.segment(value)}, {code.segment(x)})",
            "one new tensor instead of three; not bit for bit the same: x + (v - x) rounds, and inf gives nan",
            change=Change(merged=merged),
        )

    def _mask(self, product: Operation, difference: Operation) -> Tensor | None:
        """The factor of the difference, if it was made from bool values."""
        for tensor in product.inputs:
            maker = self._recording.storages[tensor.storage].maker
            producer = self._recording.operations[maker] if maker is not None else None
            was_bool = producer is not None and producer.name == "_to_copy" and producer.inputs[0].dtype == "torch.bool"
            if tensor.storage != difference.outputs[0].storage and (tensor.dtype == "torch.bool" or was_bool):
                return tensor
        return None

    # -- relu(exp(x)) -------------------------------------------------------------------------------------------------

    def _relu(self, code: Code, node: ast.AST, numbers: list[int]) -> Iterator[Suggestion]:
        """ReLU saves its result. After an operation that saves its own result, `clamp_min` saves nothing more."""
        if not isinstance(node, ast.Call) or (operand := _operand(node)) is None:
            return
        lives: dict[int, Life] = {}
        makers = set()
        for number in numbers:
            operation = self._recording.operations[number]
            if operation.name != "relu":
                return
            result, input_storage = operation.outputs[0].storage, operation.inputs[0].storage
            maker = self._recording.storages[input_storage].maker
            producer = self._recording.operations[maker] if maker is not None else None
            keepers = {saved.node for saved in self._recording.savers.get(result, ())}
            kept_anyway = {saved.node for saved in self._recording.savers.get(input_storage, ())}
            if producer is None or producer.node not in kept_anyway or keepers != {operation.node}:
                return
            readers = [n for n in self._recording.readers.get(result, ()) if not self._recording.operations[n].backward]
            lives[result] = (self._recording.storages[result].born, max([number, *readers]))
            makers.add(producer.name)
        text = code.segment(operand)
        after = f"{text if isinstance(operand, _PLAIN) else f'({text})'}.clamp_min(0)"
        because = f"relu keeps its result, clamp_min its input, which {' and '.join(sorted(makers))} keeps anyway; "
        because += "not the same gradient where that is exactly 0"
        yield Suggestion("advice", site_of(code, node), code.segment(node), after, because, change=Change(lives=lives))


def _parts_of_blend(node: ast.AST) -> tuple[ast.expr, ast.expr, ast.expr, ast.expr, ast.expr] | None:
    """The parts of `x + mask * (value - x)`: mask, value, x, product, difference."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return None
    x, product = node.left, node.right
    if not (isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)):
        return None
    for mask, difference in ((product.left, product.right), (product.right, product.left)):
        if isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub) and same(difference.right, x):
            return mask, difference.left, x, product, difference
    return None


def _operand(call: ast.Call) -> ast.expr | None:
    """The input of a ReLU call, in any spelling."""
    if call.keywords:
        return None
    if len(call.args) == 1:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) and not call.args else None
