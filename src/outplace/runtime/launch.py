"""Runs a program as Python would, with outplace attached: argv, `__main__`, sys.path, exit codes, tracebacks."""

from __future__ import annotations

import importlib.machinery
import linecache
import os
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType, TracebackType
from typing import Any, Literal

from outplace.cli.errors import OutplaceError
from outplace.runtime import attach, diagnose, instrument
from outplace.runtime.session import Session
from outplace.runtime.usercode import own_files


@dataclass(frozen=True)
class Program:
    """What to run: a script, a module (`-m`) or a piece of code (`-c`), and its arguments."""

    way: Literal["script", "module", "code"]
    target: str
    arguments: tuple[str, ...]


Show = Callable[[BaseException | None, bool], None]
"""Shows the diagnoses of an exception; with True those that were found but that the program has kept to itself."""


def execute(program: Program, json_path: str | None, show: Show) -> Any:
    """Runs the program to its end and leaves the way it left: by its exit code, or, after Ctrl-C, by the signal."""
    session = Session(json_path)
    attach.attach("marks")
    try:
        _run_as_main(program)
    except SystemExit as stop:
        stop.__traceback__ = None
        raise
    except BaseException as error:
        _show_uncaught(error, show)
        if isinstance(error, KeyboardInterrupt):
            sys.excepthook = lambda *_: None  # it has been shown; Python now ends the process as it always does
            raise
        return 1
    finally:
        session.close()
        show(None, True)
    return 0


def _run_as_main(program: Program) -> Any:
    if program.way == "module":
        return _run_module(program)
    if program.way == "code":
        return _run_code(program)
    return _run_script(program)


# -- three ways to name a program -----------------------------------------------------------------------------------------


def _run_script(program: Program) -> None:
    path = program.target
    if os.path.isdir(path):
        inner = os.path.join(path, "__main__.py")
        if not os.path.isfile(inner):
            raise OutplaceError(f"can't find '__main__' module in '{path}'", 1)
        path, folder = inner, os.path.abspath(path)
    else:
        folder = os.path.dirname(os.path.realpath(path))
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise OutplaceError(f"can't open file '{path}': {error.strerror}", 2) from None
    absolute = os.path.abspath(path)
    own_files.claim(absolute)
    _set_up(program.target, program.arguments, folder)
    main = _new_main(__file__=absolute, __loader__=importlib.machinery.SourceFileLoader("__main__", absolute))
    exec(instrument.compile_marked(source, absolute), main.__dict__)


def _run_code(program: Program) -> None:
    filename = "<string>"
    own_files.claim(filename)
    lines = program.target.splitlines(keepends=True)
    linecache.cache[filename] = (len(program.target), None, lines, filename)
    _set_up("-c", program.arguments, "")
    main = _new_main(__loader__=importlib.machinery.BuiltinImporter)
    exec(instrument.compile_marked(program.target, filename), main.__dict__)


def _run_module(program: Program) -> None:
    _set_up(program.target, program.arguments, os.getcwd())
    sys.argv[0] = "-m"
    package = program.target.split(".")[0]
    top = importlib.machinery.PathFinder.find_spec(package)
    if top is not None and top.origin is not None and top.origin.endswith(".py"):
        own_files.claim(top.origin if not top.submodule_search_locations else os.path.dirname(top.origin))
    try:
        _, spec, code = runpy._get_module_details(program.target)  # type: ignore[attr-defined]
    except ImportError as error:
        raise OutplaceError(str(error), 1) from None
    sys.argv[0] = spec.origin
    main = _new_main(
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=spec.loader,
        __package__=spec.parent,
        __spec__=spec,
    )
    assert isinstance(code, CodeType)
    exec(code, main.__dict__)


def _set_up(name: str, arguments: tuple[str, ...], folder: str) -> None:
    sys.argv = [name, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _new_main(**attributes: Any) -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update({"__builtins__": sys.modules["builtins"], "__package__": None, "__spec__": None})
    main.__dict__.update({"__annotations__": {}, "__cached__": None, **attributes})
    sys.modules["__main__"] = main
    return main


# -- errors ---------------------------------------------------------------------------------------------------------------


def _show_uncaught(error: BaseException, show: Show) -> None:
    """The traceback as Python prints it, without a frame of ours, and the diagnosis below it."""
    diagnose.examine(error)
    diagnose.trim(error)
    _drop_launching_frames(error)
    for link in _chain(error):
        diagnose.take_note_off(link)
    sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()
    show(error, False)


def _drop_launching_frames(error: BaseException) -> None:
    """The frames that lead to the program (runpy's while a module is looked up) are none of the user's."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _LAUNCHING:
        trace = trace.tb_next
    error.__traceback__ = trace


_LAUNCHING = {"<frozen runpy>", runpy.__file__}


def _chain(error: BaseException) -> list[BaseException]:
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return links
