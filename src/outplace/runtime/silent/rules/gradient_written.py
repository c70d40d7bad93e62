"""Gradients that are written in place while autograd passes the same tensor to several branches.

A gradient that goes to several branches is one tensor, not a copy for each. If a hook, or the backward of a Function,
writes the gradient it was given, it changes the gradient of all branches. The number of references to the tensor shows
this.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from outplace.knowledge.kind import SilentRule
from outplace.knowledge.silent_rules.gradients import BACKWARD_WRITES_GRADIENT, HOOK_WRITES_GRADIENT
from outplace.knowledge.traits import only_reshapes
from outplace.runtime.locate import names
from outplace.runtime.patches import caller_frames, tensor_writes
from outplace.runtime.patches.table import Patch, replaced
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan

_get_frame = sys._getframe


class _Gradients:
    """The gradients that a hook is given, and their contents before it.

    `alone` is the number of references to a gradient that goes to one branch only. Each further one is another branch.
    """

    __slots__ = ("_hidden", "_shared")

    def __init__(self, given: Iterable[Any], alone: int) -> None:
        self._hidden = hidden_writes.count()
        self._shared = [
            (gradient, gradient._version)
            for gradient in given
            if type(gradient) is torch.Tensor and gradient._use_count() > alone
        ]

    def look(self, rule: SilentRule) -> None:
        """Reports a gradient that was written. `rule` says what was given the gradients."""
        for gradient, before in self._shared:
            if gradient._version != before:
                scan.guarded(functools.partial(_report, gradient, before, rule))
            elif hidden_writes.count() > self._hidden:
                scan.guarded(functools.partial(_report_unseen, gradient, self._hidden, rule))
        reporting.raise_if_strict()


def _report(gradient: torch.Tensor, before: int, rule: SilentRule) -> None:
    storage = storage_of(gradient)
    written = [
        write
        for write in log.current().writes
        if write.storage == storage and write.frames and (write.before or 0) >= before
    ]
    last = written[-(gradient._version - before) :]
    _tell(gradient, [write for write in last if not only_reshapes(write.operation)], rule)


def _report_unseen(gradient: torch.Tensor, before: int, rule: SilentRule) -> None:
    """Reports a gradient that may have been written through `.data` or numpy."""
    _tell(gradient, hidden_writes.since(before, gradient), rule)


def _tell(gradient: torch.Tensor, written: list[log.Write], rule: SilentRule) -> None:
    if not written:
        return
    found = names.described(gradient, scan.target_of(written[-1]))
    reporting.tell(rule, found, scan.mutations_of(written))


class _Alone(NamedTuple):
    """The number of references to a gradient of one branch: from Python, the engine, and sometimes torch's hooks."""

    hook: int
    function: int
    module: int
    passed: int


def _counts(inputs: Any, outputs: Any) -> dict[str, int]:
    return {"module": inputs[0]._use_count(), "passed": outputs[0]._use_count()}


_REGISTER_HOOK: Any = torch.Tensor.register_hook
_REGISTER_MODULE_HOOK: Any = torch.nn.Module.register_full_backward_hook


def _count_holders() -> _Alone:
    """Counts the references to a gradient of one branch, in a small backward inside the user's."""
    counts: dict[str, int] = {}

    class Same(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return _count(gradient)

    def _count(gradient: Any) -> Any:
        counts["function"] = gradient._use_count()
        return gradient

    class Double(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * 2

    with torch._C.DisableTorchFunction(), torch.enable_grad():
        leaf = torch.ones(2, requires_grad=True)
        instance = Double()
        _REGISTER_MODULE_HOOK(instance, lambda module, inputs, outputs: counts.update(_counts(inputs, outputs)))
        result = leaf * 3
        _REGISTER_HOOK(result, lambda gradient: counts.update(hook=gradient._use_count()))
        engine: Any = torch.autograd.Variable._execution_engine  # the engine itself: this is not recorded as a backward
        for root in (result * 2, instance(leaf * 3) * 2, Same.apply(leaf * 3) * 2):
            engine.run_backward(
                (root,), (torch.ones(2),), False, False, (), allow_unreachable=True, accumulate_grad=True
            )
    return _Alone(**counts)


class _ModuleHook:
    """A module's backward hook. It is pickled and copied as the user's own hook, with its module."""

    def __init__(self, hook: Any, alone: Callable[[], _Alone]) -> None:
        self._hook, self._alone = hook, alone
        functools.update_wrapper(self, hook, updated=())

    def __call__(self, module: Any, *gradients: Any) -> Any:
        # When the gradients of the inputs arrive, those of the outputs have been passed on.
        passed = len(gradients) == 2 and any(gradient is not None for gradient in gradients[0])
        *inputs, outputs = gradients
        alone = self._alone()
        gradients_in = _Gradients(outputs, alone.passed if passed else alone.module)
        also = _Gradients(inputs[0] if inputs else (), alone.module)
        result = caller_frames.call(_get_frame().f_back, self._hook, (module, *gradients), {})
        gradients_in.look(HOOK_WRITES_GRADIENT)
        also.look(HOOK_WRITES_GRADIENT)
        return result

    def __reduce__(self) -> Any:
        return _itself, (self._hook,)


def _itself(hook: Any) -> Any:
    return hook


class Detector(detector.Detector):
    """Counts the references to a gradient that a hook or a backward is given, and compares its version afterwards."""

    def __init__(self) -> None:
        self._counting = False
        self._holders: _Alone | None = None
        """Counted when first needed. The numbers differ between versions of torch."""

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "A hook that is registered may write the gradient it is given."
        yield replaced(torch.Tensor, "register_hook", self._make_register_hook, why)
        for name in ("register_full_backward_hook", "register_full_backward_pre_hook"):
            yield replaced(torch.nn.Module, name, self._make_register_module_hook, why)
        node: Any = torch.autograd.function.BackwardCFunction
        why = "The backward of a Function may write the gradient it is given."
        if hasattr(node, "_get_user_fn"):
            yield replaced(node, "_get_user_fn", self._make_get_backward, why)
        else:
            yield replaced(node, "apply", self._make_apply, why)

    def _alone(self) -> _Alone:
        if self._holders is None:
            self._counting = True
            try:
                self._holders = _count_holders()
            finally:
                self._counting = False
        return self._holders

    def _watched_hook(self, hook: Any) -> Any:
        @functools.wraps(hook, assigned=("__name__", "__qualname__", "__doc__", "__module__"))
        def watched(gradient: Any) -> Any:
            if tensor_writes.is_traced():
                return hook(gradient)
            gradients_in = _Gradients((gradient,), self._alone().hook)
            result = caller_frames.call(_get_frame().f_back, hook, (gradient,), {})
            gradients_in.look(HOOK_WRITES_GRADIENT)
            return result

        return watched

    def _make_register_hook(self, original: Any) -> Any:
        @functools.wraps(original)
        def register_hook(tensor: Any, hook: Any) -> Any:
            return original(tensor, hook if tensor_writes.is_traced() else self._watched_hook(hook))

        return register_hook

    def _make_register_module_hook(self, original: Any) -> Any:
        @functools.wraps(original)
        def register(module: Any, hook: Any, *args: Any, **kwargs: Any) -> Any:
            watched = hook if tensor_writes.is_traced() else _ModuleHook(hook, self._alone)
            return original(module, watched, *args, **kwargs)

        return register

    def _make_get_backward(self, original: Any) -> Any:
        """The engine asks a Function's node for its backward, and calls it."""

        @functools.wraps(original)
        def get_backward(node: Any) -> Any:
            backward = original(node)
            return (
                backward if self._counting or tensor_writes.is_traced() else functools.partial(self._backward, backward)
            )

        return get_backward

    def _make_apply(self, original: Any) -> Any:
        """In torch before 2.13 the engine calls the node, which finds the backward itself."""

        @functools.wraps(original)
        def apply(node: Any, *gradients: Any) -> Any:
            if self._counting or tensor_writes.is_traced():
                return original(node, *gradients)
            return self._backward(original, node, *gradients)

        return apply

    def _backward(self, backward: Any, ctx: Any, *gradients: Any) -> Any:
        gradients_in = _Gradients(gradients, self._alone().function)
        before = hidden_writes.count()
        result = caller_frames.call(_get_frame().f_back, backward, (ctx, *gradients), {})
        gradients_in.look(BACKWARD_WRITES_GRADIENT)
        if hidden_writes.count() > before:
            scan.examine_rest(ctx)
        return result
