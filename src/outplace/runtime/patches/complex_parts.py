"""`z.real = v` writes a complex tensor without a call that could be patched, so marked code reports it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

from outplace.runtime.patches import tensor_writes
from outplace.runtime.record import log
from outplace.runtime.record.log import Write
from outplace.runtime.record.storages import unwrapped

_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr


def note_part(owner: Any, name: str, augmented: bool) -> Any:
    """Called by marked code around `z` in `z.real = v`.

    `z.real += v` is two writes: that of the operator, which is recorded as usual, and the assignment of its result.
    """
    if not tensor_writes.is_traced() and isinstance(owner, torch.Tensor):
        with torch._C.DisableTorchFunction():  # no mode or subclass of the user may see this
            plain = unwrapped(owner)
            if plain.is_complex() and not plain.is_inference():
                _note(plain, f".{name} =", augmented, _get_frame(1))
    return owner


def _note(owner: torch.Tensor, operation: str, augmented: bool, frame: FrameType) -> None:
    storage, version = owner.untyped_storage()._cdata, owner._version + augmented
    place = ((frame.f_code, frame.f_lasti),)
    log.add_write(Write(storage, version, _next_number(), operation, place, None, torch.is_grad_enabled()))
