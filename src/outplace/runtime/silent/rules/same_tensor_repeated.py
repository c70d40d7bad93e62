"""One tensor that is in a list or dict many times (`[x] * n`): a write to one entry changes all of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import torch

from outplace.knowledge.silent_rules.lists import SAME_TENSOR_REPEATED
from outplace.runtime.locate import names
from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.table import Patch, registered
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Write
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan


class Detector(detector.Detector):
    """Receives the writes to such tensors."""

    def __init__(self) -> None:
        self._repeated: dict[int, Weak] = {}
        """By identity."""

    def patches(self) -> Iterator[Patch]:
        """Empties a list of the record at detach."""
        why = "The writes to a tensor that stands many times in a list are shown."
        yield registered("outplace.runtime.patches.tensor_writes.special", lambda: tensor_writes.special.clear, why)

    def on_repeated(self, tensor: torch.Tensor) -> None:
        """`[tensor] * n` was evaluated."""
        key = id(tensor)
        self._repeated[key] = Weak(tensor, lambda _: self._repeated.pop(key, None))
        tensor_writes.watch_storage(tensor)

    def on_special_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A write to such a tensor."""
        if id(tensor) in self._repeated and write.frames and hidden_writes.worth_a_look(write.frames[-1]):
            scan.guarded(lambda: _look(write, tensor))


def _look(write: Write, tensor: torch.Tensor) -> None:
    if _stands_many_times(tensor):
        found = names.described(tensor, scan.target_of(write))
        reporting.tell(SAME_TENSOR_REPEATED, found, scan.mutations_of([write]))


def _stands_many_times(tensor: torch.Tensor) -> bool:
    """Is it still in the container many times? The entries may have been replaced since."""
    for holder in gc.get_referrers(tensor):
        held = holder.values() if type(holder) is dict else holder if type(holder) in (list, tuple) else ()
        if sum(item is tensor for item in held) > 1:
            return True
    return False
