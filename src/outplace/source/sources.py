"""What a written value is made of: gradients, results of networks, parameters that are trained, other leaves."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from outplace.source import torch_model
from outplace.source.graph import Storage
from outplace.source.heuristics import is_gradient_name
from outplace.source.joins import options
from outplace.source.reachable_tensors import storages_in
from outplace.source.torch_model.tensors import node_of, requires_grad
from outplace.source.values import Bound, Choice, Tensor, Torch, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.facts import Source
    from outplace.source.tape import Tape


class Sources:
    """Follows the memory that gradients lie in, and what is computed with them."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._gradients: set[Storage] = set()
        self._somewhere = Storage()
        """Stands for the gradients of what is not known."""
        self._with_graph: set[Storage] = set()
        """The memory of gradients that are part of a graph themselves, and of what was computed with them."""
        self._results: set[Storage] = set()
        """The memory of what networks have computed, and of what was computed with it."""
        self.found: set[Source] = set()

    def follow(self, node: ast.expr, value: Value, operands: Collection[Storage]) -> Value:
        """Notes an expression that gives a gradient, or something computed with one."""
        if not self._results.isdisjoint(operands):
            self._results.update(storages_in(value))
        given = _gives_gradient(node) and not _is_callable(value)
        if not self._with_graph.isdisjoint(operands):
            self._with_graph.update(storages_in(value))
        if not given and self._gradients.isdisjoint(operands):
            return value
        if any(requires_grad(tensor) is not False for tensor in torch_model.tensors_in(value)):
            self._with_graph.update(storages_in(value) if given else ())  # `create_graph=True`
            return value
        if isinstance(value, Unknown) and given:
            value = Unknown(value.of | {self._somewhere})
        self._gradients.update(storages_in(value))
        return value

    def network_ran(self, result: Value) -> None:
        """Notes what a network has computed."""
        self._results.update(storages_in(result))

    def written(self, values: Iterable[Value], own: Collection[Storage]) -> None:
        """Notes what is written. `own`: the memory of the tensor that is written."""
        for value in values:
            for option in options(value):
                if not self._gradients.isdisjoint(storages_in(option)):
                    self.found.add("gradient")
                elif isinstance(option, Unknown):
                    self.found.add("unknown")
                if not self._with_graph.isdisjoint(storages_in(option)):
                    self.found.add("gradient with graph")
                if not self._results.isdisjoint(storages_in(option)):
                    self.found.add("network")
            for tensor in torch_model.tensors_in(value):
                if tensor.storage not in own and requires_grad(tensor) is not False:
                    self.found.update(self._of_graph(tensor, own))

    def _of_graph(self, tensor: Tensor, own: Collection[Storage]) -> Iterator[Source]:
        """The leaves that it was computed with."""
        if requires_grad(tensor) is None:
            yield "unknown"
            return
        root = node_of(tensor)
        leaves = [leaf for node in self._tape.reached([root]) for leaf in node.leaves] if root is not None else [tensor]
        for leaf in leaves:
            if leaf.storage not in own:
                yield "trained" if leaf.parameter or leaf.held else "leaf"


def _gives_gradient(node: ast.expr) -> bool:
    """`p.grad`, `torch.autograd.grad(...)`, `grads`."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("autograd.grad")
    return (isinstance(node, ast.Attribute) and node.attr == "grad") or (
        isinstance(node, ast.Name) and is_gradient_name(node.id)
    )


def _is_callable(value: Value) -> bool:
    """`torch.autograd.grad`, `torch.no_grad`: no gradient, but a function of torch."""
    return isinstance(value, Torch | Bound | Choice) and not any(torch_model.tensors_in(value))


def written_value(statement: ast.stmt) -> ast.expr | None:
    """`v` of `x[i] = v` and of `x += v`."""
    if isinstance(statement, ast.AugAssign):
        return statement.value
    is_write = isinstance(statement, ast.Assign) and not any(isinstance(item, ast.Name) for item in statement.targets)
    return statement.value if is_write else None  # type: ignore[attr-defined]
