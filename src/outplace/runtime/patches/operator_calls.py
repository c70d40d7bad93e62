"""Records what an operator of `torch.library` writes, at the line that calls the operator.

The schema of an operator says which arguments it writes. The call is recorded as a write of these tensors, so a kernel
in C++ or Triton is seen too. The hook is compiled into torch's own `__call__` methods: no frame of outplace is in a
traceback.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket

from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.code_injection import rewritten
from outplace.runtime.patches.table import Patch
from outplace.runtime.record import operator_calls
from outplace.runtime.record.operator_calls import OperatorCall
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.user_files import HANDING_ON, own_files

_BEGAN, _ENDED, _HELD = "__outplace_operator__", "__outplace_operator_ended__", "__outplace_call"

_next_number = torch._C._autograd._get_sequence_nr


class _Written(NamedTuple):
    """An argument that an operator writes. `position` is None if it can only be passed by name."""

    position: int | None
    name: str


_written: dict[int, tuple[Any, tuple[_Written, ...]]] = {}
"""What each operator writes, by its id. The operator is kept, so that its id is not used again."""


def patches() -> Iterator[Patch]:
    """The hooks in the calls of operators."""
    hooks: dict[str, Callable[..., Any]] = {_BEGAN: _began, _ENDED: _ended}
    why = "A call of an operator is a write of the arguments that its schema declares as written."
    for kind in (OpOverload, OpOverloadPacket):
        yield rewritten(kind.__call__, _add_hooks, hooks, why).clearing(operator_calls.running, _written)


def _add_hooks(definition: ast.FunctionDef) -> None:
    """Adds a call at the beginning, and one at the end if the operator writes."""
    first = definition.body[0]
    source = f"{_HELD} = {_BEGAN}(self, args, kwargs)\ntry: pass\nfinally:\n    if {_HELD}: {_ENDED}({_HELD})"
    begin, guarded = ast.parse(source).body
    for node in (*ast.walk(begin), *ast.walk(guarded)):
        ast.copy_location(node, first)
    assert isinstance(guarded, ast.Try)
    guarded.body = definition.body
    definition.body = [begin, guarded]


def _began(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OperatorCall | None:
    known = _written.get(id(operator))
    if known is None:
        known = _written[id(operator)] = (operator, tuple(_written_arguments(operator)))
    if not known[1] or tensor_writes.is_traced():
        return None
    torchs_frame = sys._getframe(1)
    frames = tensor_writes.frames_of(torchs_frame)
    if not frames or any(code.co_name in HANDING_ON for code, _ in frames):
        return None  # a mode carries out what the user's line called: that was recorded there
    tensors = [tensor for argument in known[1] for tensor in _tensors(argument, args, kwargs)]
    storages = frozenset(storage for tensor in tensors if (storage := storage_of(tensor)) is not None)
    called = tuple(place for place in frames if not _is_machinery(place[0].co_filename))
    name = operator.__name__.split(".")[0]
    call = OperatorCall(name, _next_number(), called, storages, torchs_frame, threading.get_ident())
    operator_calls.running.append(call)
    for tensor in tensors:
        tensor_writes.note_frames(tensor, name, called)
    return call


def _ended(call: OperatorCall) -> None:
    call.torchs_frame = None
    if call in operator_calls.running:
        operator_calls.running.remove(call)


def _is_machinery(filename: str) -> bool:
    """Is it a file of torch that only hands the call on to the operator?"""
    return filename in _MACHINERY and not own_files[filename]


_MACHINERY = {kind.__call__.__code__.co_filename for kind in (OpOverload, OpOverloadPacket, CustomOpDef)}


def _tensors(argument: _Written, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    position = argument.position
    value = args[position] if position is not None and position < len(args) else kwargs.get(argument.name)
    values = value if isinstance(value, list | tuple) else (value,)
    return [tensor for tensor in values if isinstance(tensor, torch.Tensor)]


def _written_arguments(operator: Any) -> Iterator[_Written]:
    """The arguments that an operator writes. A name may stand for several overloads: then, what all of them write."""
    if isinstance(operator, OpOverloadPacket):
        schemas = [getattr(operator, name)._schema for name in operator.overloads()]
    else:
        schemas = [operator._schema]
    found = [set(_written_in(schema)) for schema in schemas]
    for argument in sorted(set().union(*found), key=str):
        if argument.position is None or all(argument in each for each in found):
            yield argument


def _written_in(schema: Any) -> Iterator[_Written]:
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield _Written(None if argument.kwarg_only else position, argument.name)
