"""Whether a frame catches an exception that is raised at its current instruction, and goes on.

Python keeps, for each instruction, where the code goes on if it raises. A `finally` block raises again, and so does a
`with` block unless its manager suppresses the exception. What the manager is, is read from the source of the `with`
statement, without running anything: if that is not certain, it may suppress.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple


def catches(frame: FrameType, ends_at: int | None = None) -> bool:
    """Could this frame catch what its current instruction raises, before the handler `ends_at`?"""
    code = frame.f_code
    target = handler(code, frame.f_lasti)
    while target is not None and target != ends_at:
        if _may_suppress(frame, target) if _is_block(code, target) else _catches(code, target):
            return True
        cleanup = handler(code, target)
        target = None if cleanup is None else handler(code, cleanup)
    return False


def block_at(code: CodeType, offset: int) -> int | None:
    """The handler of the `with` block that this instruction enters; None if it enters none."""
    starts = [entry.start for entry in _table(code) if entry.start > offset]
    return handler(code, min(starts)) if starts and _enters_block(code, offset) else None


@functools.lru_cache(maxsize=1000)
def handler(code: CodeType, offset: int) -> int | None:
    """Where the code goes on if this instruction raises; None if the exception leaves the frame."""
    return next((entry.target for entry in _table(code) if entry.start <= offset < entry.end), None)


class _Entry(NamedTuple):
    start: int
    end: int
    target: int


@functools.lru_cache(maxsize=100)
def _table(code: CodeType) -> Any:
    # Python 3.10 has no such table. There, everything may be caught.
    parse: Any = getattr(dis, "_parse_exception_table", None)
    return parse(code) if parse else [_Entry(0, sys.maxsize, 0)]


class _Instruction(NamedTuple):
    """What is read of an instruction. Its constant is not kept, because that may be code with marks."""

    offset: int
    opname: str
    positions: Any


@functools.lru_cache(maxsize=100)
def _instructions(code: CodeType) -> dict[int, _Instruction]:
    return {
        item.offset: _Instruction(item.offset, item.opname, getattr(item, "positions", None))
        for item in dis.get_instructions(code)
    }


def _names(code: CodeType, start: int, end: int) -> list[str]:
    return [item.opname for offset, item in _instructions(code).items() if start <= offset < end]


@functools.lru_cache(maxsize=1000)
def _catches(code: CodeType, target: int) -> bool:
    """Does this handler end an exception? It leaves it before it comes to the part that raises again."""
    if _names(code, target, target + 2) == ["CALL_INTRINSIC_1"]:  # of a generator: StopIteration becomes another error
        return False
    cleanup = handler(code, target)
    names = _names(code, target, target if cleanup is None else cleanup)
    return names[:1] != ["PUSH_EXC_INFO"] or "POP_EXCEPT" in names


@functools.lru_cache(maxsize=1000)
def _is_block(code: CodeType, target: int) -> bool:
    return "WITH_EXCEPT_START" in _names(code, target, target + 10)


@functools.lru_cache(maxsize=100)
def _enters_block(code: CodeType, offset: int) -> bool:
    before, this = _names(code, 0, offset)[-1:], _names(code, offset, offset + 1)
    return this == ["BEFORE_WITH"] or (this == ["CALL"] and before == ["LOAD_SPECIAL"])


# -- the managers of `with` blocks -------------------------------------------------------------------------------------


def _may_suppress(frame: FrameType, target: int) -> bool:
    code = frame.f_code
    name = _manager(code, target)
    if name is None or name[0] in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return True
    value: Any = frame.f_globals.get(name[0])
    for attribute in name[1:]:
        value = getattr(value, "__dict__", {}).get(attribute)
    if isinstance(value, FunctionType):  # it makes a manager from a generator
        body = getattr(value, "__wrapped__", None)
        return not isinstance(body, FunctionType) or not _raises_again(body.__code__)
    leave = next((vars(base)["__exit__"] for base in getattr(value, "__mro__", ()) if "__exit__" in vars(base)), None)
    return not isinstance(leave, FunctionType) or not _returns_nothing(leave.__code__)


@functools.lru_cache(maxsize=100)
def _manager(code: CodeType, target: int) -> tuple[str, ...] | None:
    """The name of what is called to make the manager of a `with` block: ("torch", "no_grad")."""
    start = min(entry.start for entry in _table(code) if entry.target == target)
    before = [item for item in _instructions(code).values() if item.offset < start][-2:]  # the call, and BEFORE_WITH
    where = before[0].positions
    if where is None or where.lineno is None or where.lineno != where.end_lineno:
        return None
    line = linecache.getline(code.co_filename, where.lineno).encode()
    try:
        call = ast.parse(line[where.col_offset : where.end_col_offset].decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    made = call.func if isinstance(call, ast.Call) else None
    name: list[str] = []
    while isinstance(made, ast.Attribute):
        name.append(made.attr)
        made = made.value
    return (made.id, *reversed(name)) if isinstance(made, ast.Name) else None


@functools.lru_cache(maxsize=100)
def _returns_nothing(code: CodeType) -> bool:
    """Does it return only None and False? An `__exit__` that does suppresses nothing."""
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        returned = before if instruction.opname == "RETURN_VALUE" else instruction
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            constant = returned is not None and returned.opname in ("LOAD_CONST", "RETURN_CONST")
            if not constant or returned is None or returned.argval:
                return False
        before = instruction
    return True


@functools.lru_cache(maxsize=100)
def _raises_again(code: CodeType) -> bool:
    """Does this generator raise again what is thrown into it where it yields?"""
    for offset, instruction in _instructions(code).items():
        if instruction.opname == "YIELD_VALUE":
            target = handler(code, offset)
            while target is not None:
                if _catches(code, target) or _is_block(code, target):
                    return False
                cleanup = handler(code, target)
                target = None if cleanup is None else handler(code, cleanup)
    return True
