"""Tensors made of parts of a numpy array, rescaled in place: the array changes, and is rescaled again next time.

`torch.from_numpy(prices[a:b])` shares the array's memory. Where the same call comes to the same part again, it finds
what was done to the tensor before: what is standardised once more is no longer what the program takes it for. A tensor
that is only written (the array is filled or preprocessed through it), or added to (the array is a sum), is fine.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from outplace.knowledge.derivatives import normalises
from outplace.knowledge.silent_rules.lists import ARRAY_PART_WRITTEN
from outplace.source.graph import Hit, compatible
from outplace.source.overlaps import Region, touches
from outplace.source.torch_model import regions
from outplace.source.values import PLAIN, ArrayPart, Plain, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


class Taken(NamedTuple):
    """A tensor over a part of an array, and the array, so that it stays alive."""

    array: Plain
    region: Region
    tensor: Tensor


def check_taken_again(interpreter: Interpreter, source: Plain, made: Tensor, node: ast.AST) -> None:
    """A tensor was made of (a part of) an array: has the same call done so before, and was that rescaled and used?"""
    array, region = _part(source)
    if array is PLAIN or region is None or None in region:
        return
    made.storage.read = made.storage.read or 0
    before = interpreter.taken.setdefault(id(array), {}).setdefault(id(node), [])
    tape = interpreter.tape
    for earlier in before:
        last_read = earlier.tensor.storage.read or 0
        for write in earlier.tensor.storage.writes if touches(earlier.region, region) else ():
            used = earlier.tensor.since < write.time < last_read
            renewed = earlier.tensor.storage.replaced_since(write.time)
            if used and not renewed and normalises(write.operation) and compatible(write.path, tape.path):
                tape.hits.append(Hit.silent(ARRAY_PART_WRITTEN, write, write.place, False))
    before.append(Taken(array, region, made))


def forget_array(interpreter: Interpreter, value: Value) -> None:
    """An array may have got new contents."""
    if isinstance(value, Plain) and interpreter.taken:
        interpreter.taken.pop(id(_part(value)[0]), None)


def _part(source: Plain) -> tuple[Plain, Region | None]:
    """The array that this is a part of, and which."""
    if not isinstance(source, ArrayPart):
        return source, ()
    array, region = _part(source.of)
    return array, regions.part_of(region, source.key)
