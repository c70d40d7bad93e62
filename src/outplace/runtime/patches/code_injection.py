"""Puts calls into library functions, inside their own code, so that each function stays the same object.

Dynamo, TorchScript and `__torch_function__` identify functions by their identity, so they see no difference. No frame
of outplace appears in a traceback. The hooks are names in `builtins`, which every function can see.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from outplace.runtime.patches.table import Patch, Undo

Rewrite = Callable[[ast.FunctionDef], None]
"""Changes the syntax tree of a function."""


def injected(function: Any, name: str, arguments: str, hook: Callable[..., None], why: str) -> Patch:
    """Makes the function call `hook` first, with these arguments (expressions in its own names).

    `name` is one word. Functions with the same hook may share it.
    """
    call = f"__outplace_{name}__"
    return rewritten(function, _CallingFirst(f"{call}({arguments})"), {call: hook}, why)


def rewritten(function: Any, rewrite: Rewrite, hooks: Mapping[str, Callable[..., Any]], why: str) -> Patch:
    """Changes the code of a function. The new code may call these hooks by their names.

    The compiled code is cached for an equal `rewrite`, because a watched function attaches at every call.
    """
    function = inspect.unwrap(function)
    return Patch(
        f"{function.__module__}.{function.__qualname__}",
        "code injected",
        why,
        lambda: _inject(function, _compiled(function, rewrite), hooks),
    )


def _inject(function: Any, code: CodeType, hooks: Mapping[str, Callable[..., Any]]) -> Undo:
    known = vars(builtins)
    before = {name: known[name] for name in hooks if known.get(name, _nothing) is not _nothing}
    known.update(hooks)
    original, function.__code__ = function.__code__, code

    def undo() -> None:
        if function.__code__ is code:
            function.__code__ = original
        for name in hooks:
            if name in before:
                known[name] = before[name]
            elif _is_running(code):
                known[name] = _nothing  # the running call still needs the name
            else:
                known.pop(name, None)

    return undo


def _is_running(code: CodeType) -> bool:
    """Is a call of this code running, in any thread?"""
    for running in sys._current_frames().values():
        frame: FrameType | None = running
        while frame is not None:
            if frame.f_code is code:
                return True
            frame = frame.f_back
    return False


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True)
class _CallingFirst:
    """Inserts a call at the beginning of a function."""

    call: str

    def __call__(self, definition: ast.FunctionDef) -> None:
        begin = 1 if ast.get_docstring(definition, clean=False) is not None else 0
        hook = ast.parse(self.call).body[0]
        for node in ast.walk(hook):
            ast.copy_location(node, definition.body[begin])
        definition.body.insert(begin, hook)


_known: dict[tuple[int, Rewrite], tuple[CodeType, CodeType]] = {}


def _compiled(function: Any, rewrite: Rewrite) -> CodeType:
    """The function's code after the change, with the same line numbers."""
    original = function.__code__
    key = (id(original), rewrite)
    if key not in _known:
        _known[key] = (original, _compile(function, rewrite))  # keeps the code object alive: its id is not reused
    return _known[key][1]


def _compile(function: Any, rewrite: Rewrite) -> CodeType:
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    rewrite(definition)
    definition.decorator_list = []
    ast.increment_lineno(tree, first - 1)
    module = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec", dont_inherit=True)
    codes = (const for const in module.co_consts if isinstance(const, CodeType))
    return next(code for code in codes if code.co_name == definition.name)  # Python 3.14 compiles its annotations, too
