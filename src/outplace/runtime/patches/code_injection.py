"""Calls put into library functions, inside their own code: each stays the object it is.

So Dynamo, TorchScript and `__torch_function__`, which know functions by their identity, see no difference, and there is
no frame of ours in a traceback.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

from outplace.runtime.patches import tensor_writes


def prepend(function: Any, name: str, arguments: str, hook: Callable[..., None]) -> None:
    """Has the function call `hook` with these arguments (written in its own names) before all else."""
    function = inspect.unwrap(function)
    code = _with_call(function, f"__outplace_{name}__({arguments})")
    setattr(builtins, f"__outplace_{name}__", hook)
    original, function.__code__ = function.__code__, code
    tensor_writes.at_uninstall(lambda: setattr(function, "__code__", original))


def _with_call(function: Any, call: str) -> CodeType:
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    begin = 1 if ast.get_docstring(definition, clean=False) is not None else 0
    hook = ast.parse(call).body[0]
    for node in ast.walk(hook):
        ast.copy_location(node, definition.body[begin])
    definition.body.insert(begin, hook)
    definition.decorator_list = []
    ast.increment_lineno(tree, first - 1)
    module = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec", dont_inherit=True)
    return next(const for const in module.co_consts if isinstance(const, CodeType))
