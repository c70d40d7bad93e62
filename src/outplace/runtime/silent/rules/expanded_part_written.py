"""One part of an expanded tensor is written, and all the others change with it.

`h = torch.zeros(1, 5).expand(batch, 5)`, `h[0] = v`: all rows of h are one row of memory. PyTorch refuses a write to
all of them at once, and says nothing about a write to one.
"""

from __future__ import annotations

from functools import partial

import torch

from outplace.knowledge.silent_rules.two_names import EXPANDED_PART_WRITTEN
from outplace.runtime.locate import names
from outplace.runtime.record.log import Region, Write
from outplace.runtime.silent import detector, reporting, scan


def _is_part(region: Region) -> bool:
    """Does the index take one of the places that are one memory? (PyTorch refuses several.)"""
    index = region.key
    rest = len(region.size) - sum(part is not None and part is not Ellipsis for part in index)
    axis = 0
    for part in index:
        if part is Ellipsis:
            axis += rest
        elif part is not None:
            length, repeated = region.size[axis], region.stride[axis] == 0
            some = 1 if isinstance(part, int) else len(range(*part.indices(length)))
            if repeated and some == 1 < length:
                return True
            axis += 1
    return False


class Detector(detector.Detector):
    """Looks at the assignments to parts of tensors."""

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        region = write.region
        assigns = region is not None and write.operation == "__setitem__" and bool(write.frames)
        if assigns and region is not None and 0 in region.stride and _is_part(region):
            scan.guarded(partial(self._tell, write, tensor))
            reporting.raise_if_strict()

    def _tell(self, write: Write, tensor: torch.Tensor) -> None:
        found = names.described(tensor, scan.target_of(write))
        reporting.tell(EXPANDED_PART_WRITTEN, found, scan.mutations_of([write]))
