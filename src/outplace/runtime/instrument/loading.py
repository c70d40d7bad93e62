"""Compiles the user's source: imports, files loaded by their path, `compile`, and the program itself."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import warnings
from types import CodeType
from typing import Any

from outplace.files.quiet import quietly
from outplace.runtime.instrument.marker import Marker
from outplace.runtime.record.user_files import adopt, own_files

UNCOMPILABLE = (OSError, SyntaxError, ValueError, RecursionError, MemoryError)

_texts: dict[str, str] = {}


def lay_over(texts: dict[str, str]) -> None:
    """From now on these texts are compiled instead of the files with these real paths."""
    _texts.update(texts)


def add_marks(tree: ast.Module, filename: str) -> None:
    """Puts marks into a tree that will be compiled as this file."""
    Marker(filename).visit(tree)


def compile_marked(source: str | bytes, filename: str, flags: int = 0) -> CodeType:
    """Compiles source with marks. Source that cannot be parsed raises what `compile` raises."""
    source = _texts.get(os.path.realpath(filename), source)
    tree = ast.parse(source, filename, type_comments=False)
    add_marks(tree, filename)
    code: CodeType = compile(tree, filename, "exec", flags, dont_inherit=True)
    return code


def compile_main(source: str | bytes, filename: str) -> CodeType:
    """Compiles the program. Source that Python refuses raises Python's own error; all other source runs."""
    with contextlib.suppress(*UNCOMPILABLE):
        with warnings.catch_warnings(record=True) as said:  # compiling it again, below, repeats them
            marked = compile_marked(source, filename)
        for item in said:
            warnings.showwarning(item.message, item.category, item.filename, item.lineno)
        return marked
    # Raises Python's own error. If only the marks are too much (very deep expressions), compiles without marks.
    code: CodeType = compile(source, filename, "exec", dont_inherit=True)
    return code


# -- modules ------------------------------------------------------------------------------------------------------

_SourceFileLoader: Any = importlib.machinery.SourceFileLoader
_get_code: Any = _SourceFileLoader.get_code
_read_code: Any = runpy._get_code_from_file  # type: ignore[attr-defined]


def get_code_with_marks(self: Any, fullname: str) -> Any:
    """Replaces SourceFileLoader's method. It writes no .pyc of these files, which would hold code with marks.

    If there is a .pyc, Python looks at it first: it warns only if it has to compile the module again. A module
    that cannot be compiled is left to Python, which raises its own error. So are loaders that compile in other ways.
    """
    if type(self) is _SourceFileLoader:
        with contextlib.suppress(*UNCOMPILABLE, ImportError):
            path = self.get_filename(fullname)
            if own_files[path]:
                known = os.path.exists(importlib.util.cache_from_source(path)) and _get_code(self, fullname)
                with quietly() if known else contextlib.nullcontext():
                    return compile_marked(self.get_data(path), path)
    return _get_code(self, fullname)


# Python removes the frames of its import system from a traceback, if no other frames are among them.
get_code_with_marks.__code__ = get_code_with_marks.__code__.replace(co_filename=_get_code.__code__.co_filename)


def read_code_with_marks(*arguments: Any) -> Any:
    """For `runpy.run_path`, which launchers use to run scripts. Returns the code; before Python 3.12 also the name."""
    plain = _read_code(*arguments)
    code = plain[0] if isinstance(plain, tuple) else plain
    if own_files[code.co_filename]:
        with contextlib.suppress(*UNCOMPILABLE), quietly():
            code = compile_marked(io.FileIO(arguments[-1]).readall(), code.co_filename)
    return (code, *plain[1:]) if isinstance(plain, tuple) else code


# -- compile() ----------------------------------------------------------------------------------------------------


def compile_with_marks(value: Any, taken_by: Any = None) -> Any:
    """Replaces `compile` where the user's code calls it. What `exec` is given is compiled with marks first."""
    if value is builtins.compile:
        return _compile
    if taken_by is builtins.exec and isinstance(value, str):
        flags = _future_flags(sys._getframe(1).f_code)
        return _compile_text(value, "<string>", "exec", flags) or value
    return value


def _compile(
    source: Any, filename: Any, mode: str, flags: int = 0, dont_inherit: bool = False, optimize: int = -1, **rest: Any
) -> Any:
    """Compiles a file of the user for `exec` with marks, and everything else as usual."""
    if not dont_inherit:
        flags |= _future_flags(sys._getframe(1).f_code)
    if mode == "exec" and optimize == -1 and not rest and isinstance(source, str | bytes):
        path = filename if isinstance(filename, str) else os.fsdecode(filename)
        marked = _compile_text(source, path, mode, flags) if isinstance(source, str) else None
        if marked is not None:
            return marked
        if not flags & ast.PyCF_ONLY_AST and not path.startswith("<") and os.path.isfile(path) and own_files[path]:
            with contextlib.suppress(*UNCOMPILABLE):
                return compile_marked(source, path, flags)
    return compile(source, filename, mode, flags, True, optimize, **rest)


_compiled: dict[tuple[str, str, str, int], CodeType] = {}


def _compile_text(text: str, filename: str, mode: str, flags: int) -> CodeType | None:
    """Compiles a text with marks that is in no file; None if it must be compiled as usual."""
    if not filename.startswith("<") or flags & ast.PyCF_ONLY_AST or not adopt(filename, text):
        return None
    key = (text, filename, mode, flags)
    if key not in _compiled:
        with contextlib.suppress(*UNCOMPILABLE), quietly("error"):  # Python says it, with the line of the user's call
            tree: Any = ast.parse(text, filename, mode)
            Marker(filename).visit(tree)
            code = compile(ast.fix_missing_locations(tree), filename, mode, flags, dont_inherit=True)
            _compiled[key] = code
    return _compiled.get(key)


def compile_example(
    source: str, filename: str, mode: str, flags: int = 0, dont_inherit: bool = False, optimize: int = -1
) -> Any:
    """Replaces `compile` in doctest, which runs the examples of docstrings."""
    marked = _compile_text(source, filename, mode, flags)
    return marked or compile(source, filename, mode, flags, True, optimize)


def _future_flags(code: CodeType) -> int:
    """The `from __future__ import` flags of the calling code, which `compile` inherits."""
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag & code.co_flags
    return flags
