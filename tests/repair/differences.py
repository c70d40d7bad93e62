"""The truth about a program's gradient that owes nothing to autograd: central differences of its forward, in float64.

A program sets `leaves`, computes `loss` from them, and ends in `loss.backward()`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import torch

BACKWARD = "loss.backward()\n"
STEP = 1e-6


@dataclass(frozen=True)
class Outcome:
    """What a program computed; None for what an error prevented."""

    loss: float | None
    gradients: list[torch.Tensor] | None
    error: str = ""


def run(source: str, keep: bool = False) -> Outcome:
    """Runs a program. `keep` saves copies for backward, so that it gets the gradient its author meant."""
    names: dict[str, Any] = {}
    kept = torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if keep:
                with kept:
                    exec(source, names)
            else:
                exec(source, names)
    except RuntimeError as error:
        loss = names.get("loss")
        return Outcome(None if loss is None else loss.item(), None, str(error))
    gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in names["leaves"]]
    return Outcome(names["loss"].item(), gradients)


class Forward:
    """The forward of a program as a function of its leaves, computed without autograd."""

    def __init__(self, source: str) -> None:
        head, body = source.replace(BACKWARD, "").split("leaves = ", 1)
        listed, self._body = body.split("\n", 1)
        self._names = [name.strip() for name in listed.strip("[]").split(",")]
        self._code = compile(self._body, "program", "exec")
        self._globals: dict[str, Any] = {}
        exec(head, self._globals)
        self.leaves = [self._globals[name].detach() for name in self._names]

    def __call__(self, leaves: list[torch.Tensor]) -> float:
        names = {**self._globals, **dict(zip(self._names, (leaf.clone() for leaf in leaves), strict=True))}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(self._code, names)
        return float(names["loss"])

    def value(self) -> float | None:
        """The loss; None where the program cannot be run even so."""
        try:
            return self(self.leaves)
        except RuntimeError:
            return None

    def gradients(self, step: float = STEP) -> list[torch.Tensor]:
        """Central differences by each element of each leaf."""
        found = []
        for index, leaf in enumerate(self.leaves):
            slope = torch.zeros_like(leaf)
            for i in range(leaf.numel()):
                ends = []
                for sign in (1, -1):
                    moved = [one.clone() for one in self.leaves]
                    moved[index].view(-1)[i] += sign * step
                    ends.append(self(moved))
                slope.view(-1)[i] = (ends[0] - ends[1]) / (2 * step)
            found.append(slope)
        return found


def close(actual: list[torch.Tensor], expected: list[torch.Tensor], size: float) -> bool:
    """Do gradients agree as far as differences of values of this size can tell?"""
    return all(
        torch.allclose(one, other, rtol=1e-4, atol=1e-6 * max(1.0, abs(size)))
        for one, other in zip(actual, expected, strict=True)
    )


def verdict(source: str, fixed: str) -> str:
    """How a repair has done: `legal`, `left` (both unchanged), `mended`, `partly` ...; `HARMED` with the reason."""
    before = run(source)
    if fixed == source:
        return "left" if before.gradients is None else "legal"
    hidden = any(word in source for word in (".data", ".detach()", "no_grad"))
    if before.gradients is not None and not hidden:
        return "HARMED: a legal program was changed"
    forward = Forward(source)
    value, after = forward.value(), run(fixed)
    if value is None:
        return "refused"  # not even the forward can be run: there is nothing to compare with
    if after.loss is None:
        return "partly" if before.loss is None else f"HARMED: {after.error}"
    if not _same(after.loss, value):
        return f"HARMED: the loss is {after.loss}, not {value}"
    if after.gradients is None:
        return "partly" if before.gradients is None else f"HARMED: {after.error}"
    if not abs(value) < 1e6:
        return "unmeasured"
    if hidden:  # differences follow what autograd is told not to see
        meant = [found for variant in _recorded(source) if (found := run(variant, keep=True).gradients) is not None]
        if not meant:
            return "unmeasured"
        for found, answer in ((after, "mended"), (run(fixed, keep=True), "partly")):  # a write through `.data` is left
            if found.gradients is not None and any(close(found.gradients, one, 1.0) for one in meant):
                return answer
        return "HARMED: other gradients than were meant"
    slopes: list[list[torch.Tensor]] = []
    for step in (STEP, 1e-5, 1e-7):  # one of them may just cross a kink
        slopes.append(forward.gradients(step))
        if close(after.gradients, slopes[-1], value):
            return "mended"
    if not any(close(one, other, value) for one, other in combinations(slopes, 2)):
        return "unmeasured"  # too steep for differences
    meant = run(source, keep=True).gradients
    if meant is not None and _overflow(after.gradients, meant):
        return "unmeasured"
    return "HARMED: the gradient is not that of the original forward"


def _overflow(found: list[torch.Tensor], meant: list[torch.Tensor]) -> bool:
    """Do they differ in nothing, and are some of them no numbers (`inf * 0`), as the original's with copies are?"""
    alike = all(torch.allclose(one, other, equal_nan=True) for one, other in zip(found, meant, strict=True))
    return alike and not all(one.isfinite().all() for one in found)


def _recorded(source: str) -> Iterator[str]:
    """The program, and with each choice of its writes through `.data` recorded: a repair may take them for mistakes.

    Autograd records no write to a leaf. So each choice is also made for copies of the leaves.
    """
    parts = source.split(".data.")
    for chosen in product((".data.", "."), repeat=len(parts) - 1):
        variant = parts[0] + "".join(joint + part for joint, part in zip(chosen, parts[1:], strict=True))
        yield variant
        yield re.sub(r"^(leaves = \[(.*)\]\n)", r"\1\2 = [leaf.clone() for leaf in leaves]\n", variant, flags=re.M)


def _same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other) or abs(one - other) <= 1e-9 * max(1.0, abs(other))
