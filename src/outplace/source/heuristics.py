"""Guesses from names and comments: the only places where a word of the user's decides something.

Each function says what it believes and what happens if it is wrong. docs/check.md lists them for users.
"""

from __future__ import annotations

import ast
import re

_INFERENCE_ONLY = re.compile(
    r"\bonly (?:(?:be )?used )?(?:for|in|at|during) (?:inference|evaluation|generation)"
    r"|\b(?:inference|evaluation)[- ]only\b",
    re.IGNORECASE,
)
_PARAMETERS = ("weight", "bias")
_UPDATES = (
    "init", "reset", "fill", "load", "update", "project", "clip", "set", "constrain", "normalize_weight", "step",
)  # fmt: skip
_TRAINS = re.compile(r"^\S*(?:train|fit|main)\w*\(", re.MULTILINE)


def is_mask(factor: ast.expr) -> bool:
    """Belief: an expression with "mask" in its text holds zeros and ones, so a second product with it changes nothing.

    If wrong: `self.weight.data *= self.mask` in every forward is a silent bug that `check` misses.
    """
    return "mask" in ast.unparse(factor).lower()


def says_inference_only(text: str) -> bool:
    """Belief: nobody trains through a function whose docstring or first comment says "only for inference".

    If wrong: a bug in that function is a warning, not an error.
    """
    return _INFERENCE_ONLY.search(text) is not None


def trains_by_name(source: str) -> bool:
    """Belief: a file that calls `train(...)`, `fit(...)` or `main(...)` at its top level may train.

    If wrong: a file without findings is analysed for nothing. A file that trains by a call of another name is analysed
    only if it writes something itself.
    """
    return _TRAINS.search(source) is not None


def makes_optimizer(call: ast.Call) -> bool:
    """Belief: a call with "optim" in its name makes an optimizer of what it is given: `get_optimizer(net)`.

    If wrong: `fix` takes the arguments for trained parameters, and offers no rewrite that makes them again.
    """
    return "optim" in ast.unparse(call.func).lower()


def clips_gradients(call: ast.Call) -> bool:
    """Belief: a call with "clip_grad" in its name clips gradients, and does nothing else.

    If wrong: `fix` moves the call together with the optimizer step after it.
    """
    return "clip_grad" in ast.unparse(call.func).lower()


def steps_by_name(call: ast.Call) -> bool:
    """Belief: a function or method whose name ends in "step" steps an optimizer.

    If wrong: `fix` does not move a backward before the call.
    """
    return ast.unparse(call.func).endswith("step")


def is_gradient_name(name: str) -> bool:
    """Belief: a variable with "grad" in its name holds gradients.

    If wrong: `fix` takes a write of it for an update of parameters, and puts that under `no_grad`.
    """
    return "grad" in name.lower()


def is_parameter_name(attribute: str) -> bool:
    """Belief: an attribute called `weight` or `bias` is a parameter.

    If wrong: `fix` does not rebind a plain tensor of that name, and looks for another rewrite.
    """
    return attribute in _PARAMETERS


def is_update_name(function: str) -> bool:
    """Belief: a function called `reset_...`, `update_...`, `clip_...` changes a leaf for good; it computes nothing.

    If wrong: `fix` puts a step of the computation under `no_grad`; the proof by running finds that.
    """
    return function.lstrip("_").startswith(_UPDATES)
