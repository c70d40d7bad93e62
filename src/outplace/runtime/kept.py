"""What is kept by reference and changes under its keeper: a `state_dict()` that was not copied."""

from __future__ import annotations

import ast
import functools
import sys
import weakref
from collections import deque
from types import FrameType
from typing import Any

import torch

from outplace.model import Mutation, Tensor
from outplace.runtime import names, record, silent, sites, verdict, writes
from outplace.runtime.record import frames_to_own_code

_get_frame = sys._getframe

_state_dicts: deque[tuple[weakref.ref[Any], int]] = deque(maxlen=64)


def _make_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        if not writes.is_traced() and not args and "destination" not in kwargs:
            _state_dicts.append((weakref.ref(made), torch._C._autograd._get_sequence_nr()))
        return made

    return state_dict


def _make_load_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if not writes.is_traced():
            frame = _get_frame(1)
            taken = next((moment for kept, moment in reversed(_state_dicts) if kept() is state_dict), None)
            if taken is not None:
                silent.guarded(lambda: _check_kept(self, state_dict, taken, frame))
                verdict.raise_if_strict()
        return original(self, state_dict, *args, **kwargs)

    return load_state_dict


def _check_kept(module: Any, kept: Any, taken: int, frame: FrameType) -> None:
    """The kept dict holds this module's own parameters, and they were stepped since: it kept nothing."""
    own = {names.storage_of(parameter) for parameter in module.parameters()}
    if not any(isinstance(value, torch.Tensor) and names.storage_of(value) in own for value in kept.values()):
        return
    steps = [step for step in record.current().steps if step.moment > taken and step.frames and _steps_on(step, own)]
    places = frames_to_own_code(frame)
    call = sites.at_instruction(places[-1]).node if places else None
    name = ast.unparse(call.args[0]) if isinstance(call, ast.Call) and call.args else None
    mutations = {
        step.frames[-1]: Mutation(step.operation, sites.at_instruction(step.frames[-1]).site) for step in steps
    }
    why = (
        "state_dict() holds the parameters themselves, not copies. The optimizer has changed them in place since, so "
        "what was kept is what the model has now, and loading it back does nothing."
    )
    if mutations:
        remedy = "Keep a copy: `copy.deepcopy(model.state_dict())`."
        verdict.tell("silent-other", Tensor(name), why, tuple(mutations.values()), remedy)


def _steps_on(step: record.Step, storages: set[int | None]) -> bool:
    parameters = (reference() for reference in step.parameters)
    return any(parameter is not None and names.storage_of(parameter) in storages for parameter in parameters)


def install() -> None:
    """Starts looking."""
    writes.replace(torch.nn.Module, "state_dict", _make_state_dict(torch.nn.Module.state_dict))
    writes.replace(torch.nn.Module, "load_state_dict", _make_load_state_dict(torch.nn.Module.load_state_dict))
