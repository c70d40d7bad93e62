"""Where the user's source becomes code: imports, files loaded by their path, `compile`, and the program itself."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.machinery
import io
import os
import runpy
import sys
import warnings
from types import CodeType
from typing import Any

from outplace.runtime.instrument.marker import Marker
from outplace.runtime.record.user_files import own_files

_UNCOMPILABLE = (OSError, SyntaxError, ValueError, RecursionError, MemoryError)

_texts: dict[str, str] = {}


def lay_over(texts: dict[str, str]) -> None:
    """From now on these texts are compiled in place of the files (by real path) they stand for."""
    _texts.update(texts)


def add_marks(tree: ast.Module, filename: str) -> None:
    """Puts marks into a tree that is to be compiled as this file."""
    Marker(filename).visit(tree)


def compile_marked(source: str | bytes, filename: str, flags: int = 0) -> CodeType:
    """Compiles source with marks in it; source that cannot be parsed raises what `compile` raises."""
    source = _texts.get(os.path.realpath(filename), source)
    tree = ast.parse(source, filename, type_comments=False)
    add_marks(tree, filename)
    code: CodeType = compile(tree, filename, "exec", flags, dont_inherit=True)
    return code


def compile_main(source: str | bytes, filename: str) -> CodeType:
    """Compiles the program itself: source that Python refuses is refused in Python's own words, all other runs."""
    with contextlib.suppress(*_UNCOMPILABLE):
        with warnings.catch_warnings(record=True) as said:  # where it is compiled again, below, they are said there
            marked = compile_marked(source, filename)
        for one in said:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)
        return marked
    # Python's own words for an error; and where the marks are too much (expressions of great depth), no marks.
    code: CodeType = compile(source, filename, "exec", dont_inherit=True)
    return code


# -- modules ------------------------------------------------------------------------------------------------------

_SourceFileLoader: Any = importlib.machinery.SourceFileLoader
_get_code: Any = _SourceFileLoader.get_code
_read_code: Any = runpy._get_code_from_file  # type: ignore[attr-defined]


def get_code_with_marks(self: Any, fullname: str) -> Any:
    """In the place of SourceFileLoader's: it never reads or writes a .pyc of these files, which hold the plain code.

    A module that cannot be compiled is left to Python: the error is its own. So are loaders that compile otherwise.
    """
    if type(self) is _SourceFileLoader:
        with contextlib.suppress(*_UNCOMPILABLE, ImportError):
            path = self.get_filename(fullname)
            if own_files[path]:
                return compile_marked(self.get_data(path), path)
    return _get_code(self, fullname)


# Python takes the frames of its import system out of a traceback, if there are no others among them.
get_code_with_marks.__code__ = get_code_with_marks.__code__.replace(co_filename=_get_code.__code__.co_filename)


def read_code_with_marks(*arguments: Any) -> Any:
    """For `runpy.run_path`, by which launchers run scripts. It returns the code, before Python 3.12 also the name."""
    plain = _read_code(*arguments)
    code = plain[0] if isinstance(plain, tuple) else plain
    if own_files[code.co_filename]:
        with contextlib.suppress(*_UNCOMPILABLE):
            code = compile_marked(io.FileIO(arguments[-1]).readall(), code.co_filename)
    return (code, *plain[1:]) if isinstance(plain, tuple) else code


# -- compile() ----------------------------------------------------------------------------------------------------


def compile_with_marks(called: Any) -> Any:
    """What stands for `compile` where the user's own code calls it."""
    return _compile if called is builtins.compile else called


def _compile(
    source: Any, filename: Any, mode: str, flags: int = 0, dont_inherit: bool = False, optimize: int = -1, **rest: Any
) -> Any:
    """Compiles a file of the user's own, to be run by `exec`, with marks; anything else as ever."""
    if not dont_inherit:
        flags |= _future_flags(sys._getframe(1).f_code)
    if mode == "exec" and optimize == -1 and not rest and isinstance(source, str | bytes):
        path = filename if isinstance(filename, str) else os.fsdecode(filename)
        if not flags & ast.PyCF_ONLY_AST and not path.startswith("<") and os.path.isfile(path) and own_files[path]:
            with contextlib.suppress(*_UNCOMPILABLE):
                return compile_marked(source, path, flags)
    return compile(source, filename, mode, flags, True, optimize, **rest)


def _future_flags(code: CodeType) -> int:
    """The `from __future__ import` of the calling code, which `compile` hands on."""
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag & code.co_flags
    return flags
