"""Runs a program as Python would, with outplace attached: argv, `__main__`, sys.path, exit codes, tracebacks."""

from __future__ import annotations

import atexit
import importlib.machinery
import io
import itertools
import os
import pkgutil
import runpy
import subprocess
import sys
import tokenize
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import Any, Literal

from outplace import settings
from outplace.errors import OutplaceError
from outplace.runtime import instrument
from outplace.runtime.errors import dispatch
from outplace.runtime.patches import caller_frames
from outplace.runtime.patches.table import Patch, Section, replaced
from outplace.runtime.program import lifecycle
from outplace.runtime.program.attachment import Way
from outplace.runtime.program.reporter import Reporter
from outplace.runtime.program.session import Session, Targets, show
from outplace.runtime.record.user_files import own_files, remember_source


@dataclass(frozen=True)
class Program:
    """What to run: a script, a module (`-m`) or a piece of code (`-c`), and its arguments."""

    way: Literal["script", "module", "code"]
    target: str
    arguments: tuple[str, ...]


def execute(program: Program, targets: Targets, reporter: Reporter) -> int:
    """Runs the program to its end and exits as it does: with its exit code or, after Ctrl-C, by the signal."""
    is_launcher = program.way == "module" and program.target.split(".")[0] in _RUNNERS
    session = Session(targets, reporter, is_launcher)
    try:
        start, way = _prepare(program)
    except OutplaceError:
        session.close()
        raise
    dispatch.notes_wait = True
    lifecycle.attach(way, reporter, settings.GUARD.read(), settings.STRICT.read())
    lifecycle.put(RUNNING)
    atexit.register(_finish, session, reporter)  # registered first, so it runs after the program's own handlers
    try:
        start()
    except SystemExit as stop:
        stop.__traceback__ = None
        raise
    except BaseException as error:
        _show_uncaught(error, reporter)
        if isinstance(error, KeyboardInterrupt):
            _show_no_more()
            raise  # Python now ends the process as usual
        return 1
    return 0


def _finish(session: Session, reporter: Reporter) -> None:
    try:
        show(reporter, dispatch.not_shown, survived=True)
    finally:
        session.close()


# -- ways to name a program -----------------------------------------------------------------------------------------


def _prepare(program: Program) -> tuple[Callable[[], object], Way]:
    """The function that starts the program, and how the sites of its nodes will be known."""
    target = program.target
    if program.way == "module":
        way = _claim_package(target)
        return lambda: _run_module(program), way
    if program.way == "code":
        return lambda: _run_source("-c", program, "<string>", f"{target}\n"), "marks"  # Python also ends the last line
    if target == "-":
        source = sys.stdin.buffer.read()
        return lambda: _run_source("-", program, "<stdin>", source), "marks"
    if os.path.isdir(target) or _is_archive(target):
        own_files.claim(target)
        return lambda: _run_folder(program), "marks" if os.path.isdir(target) else "tags"
    absolute = os.path.abspath(target)
    try:
        with open(target, "rb") as file:
            script = file.read()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        raise OutplaceError(f"can't open file '{absolute}': {reason}", 2) from None
    return lambda: _run_script(program, absolute, script), "marks"


def _is_archive(path: str) -> bool:
    """Is it a zip file? Python runs the `__main__` inside it."""
    return os.path.isfile(path) and pkgutil.get_importer(path) is not None


_RUNNERS = {"IPython", "accelerate", "coverage", "debugpy", "deepspeed", "ipykernel", "lightning", "pytest", "torch"}
"""Packages that run other people's code. That code is the user's, the package is not."""


def _claim_package(name: str) -> Way:
    """Counts the package named with -m as the user's, even if installed. A runner is not: it loads code by itself."""
    package = name.split(".")[0]
    spec = importlib.machinery.PathFinder.find_spec(package, [os.getcwd(), *sys.path[1:]])
    if package in _RUNNERS or package in sys.stdlib_module_names or spec is None:
        return "tags"
    if spec.submodule_search_locations:
        for folder in spec.submodule_search_locations:
            own_files.claim(folder)
    elif spec.origin is not None:
        own_files.claim(spec.origin)
    return "marks"


def _run_script(program: Program, path: str, source: bytes) -> None:
    own_files.claim(path)
    _set_up(program.target, program.arguments, os.path.dirname(os.path.realpath(path)))
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main = _new_main(loader, __file__=path, __cached__=None)
    caller_frames.call_from_nowhere(exec, _compile(program, source, path), main.__dict__)


def _run_source(name: str, program: Program, filename: str, source: str | bytes) -> None:
    own_files.claim(filename)
    _set_up(name, program.arguments, "")
    if filename == "<stdin>":
        loader = importlib.machinery.SourceFileLoader("__main__", filename)
        main = _new_main(loader, __file__=filename, __cached__=None)
    else:
        main = _new_main(importlib.machinery.BuiltinImporter)
    code = _compile(program, source, filename)
    remember_source(filename, source)  # not earlier: the compiler's warnings show no source line of it
    caller_frames.call_from_nowhere(exec, code, main.__dict__)


def _compile(program: Program, source: str | bytes, filename: str) -> CodeType:
    """Compiles the program. Bytes that are not text are left to Python, whose message differs from `compile`'s."""
    if isinstance(source, str) or _is_text(source):
        return instrument.compile_main(source, filename)
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    plain = settings.without_ours(os.environ)
    stdin_source = source if filename == "<stdin>" else None
    words = [sys.executable, *options, program.target, *program.arguments]
    raise SystemExit(subprocess.run(words, input=stdin_source, env=plain).returncode)


def _is_text(source: bytes) -> bool:
    """Is all of it text in the encoding that it names? `compile` does not check comments."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        source.decode(encoding)
        return b"\0" not in source and "a".encode(encoding) == b"a"  # else it cannot have named the encoding
    except (SyntaxError, UnicodeError, LookupError):
        return False


def _run_folder(program: Program) -> None:
    _set_up(program.target, program.arguments, os.path.abspath(program.target))
    _new_main(importlib.machinery.BuiltinImporter)
    caller_frames.call_from_nowhere(_run_as_main, "__main__", False)


def _run_module(program: Program) -> None:
    _set_up("-m", program.arguments, os.getcwd())
    _new_main(importlib.machinery.BuiltinImporter)
    caller_frames.call_from_nowhere(_run_as_main, program.target)


_run_as_main: Any = runpy._run_module_as_main  # type: ignore[attr-defined]


def _set_up(name: str, arguments: tuple[str, ...], folder: str) -> None:
    sys.argv = [name, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
        _forget_shadowed(folder)


_BEFORE_ALL = frozenset(
    [
        "_collections_abc",
        "_sitebuiltins",
        "abc",
        "codecs",
        "encodings",
        "genericpath",
        "io",
        "linecache",
        "ntpath",
        "os",
        "posixpath",
        "site",
        "stat",
    ]
)
"""What Python itself has loaded before it runs a program, from files in some versions."""


def _forget_shadowed(folder: str) -> None:
    """Unloads installed modules that a module beside the program shadows, because outplace may have imported them."""
    try:
        beside = {entry.partition(".")[0] for entry in os.listdir(folder or ".")}
    except OSError:
        return
    for name in (beside & sys.modules.keys()) - _BEFORE_ALL - {"outplace", "__main__"}:
        loaded = sys.modules[name].__spec__
        spec = importlib.machinery.PathFinder.find_spec(name, [folder or os.getcwd()])
        if (
            spec is None
            or spec.loader is None
            or loaded is None
            or loaded.origin in ("built-in", "frozen", spec.origin)
        ):
            continue
        for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[known]


def patches() -> Iterator[Patch]:
    """The patches of Python for a program that outplace runs."""
    why = "`traceback.print_stack()` and logging's `stack_info` end where the program begins."
    yield replaced(traceback, "walk_stack", _make_walk_stack, why)


def _make_walk_stack(walk: Any) -> Any:
    def walk_stack(f: FrameType | None) -> Iterator[tuple[FrameType, int]]:
        steps: Iterator[tuple[FrameType, int]] = walk(f)
        return steps if f is None else itertools.takewhile(lambda step: not _is_below(step[0]), steps)

    return walk_stack


RUNNING = Section("a program that is run", patches)


def _is_below(frame: FrameType) -> bool:
    return caller_frames.is_caller_frame(frame.f_code) and frame.f_globals is vars(sys)


def _new_main(loader: Any, **attributes: Any) -> ModuleType:
    main = ModuleType("__main__")
    main.__loader__ = loader
    main.__dict__.update({"__annotations__": {}, "__builtins__": sys.modules["builtins"], **attributes})
    sys.modules["__main__"] = main
    return main


# -- errors ---------------------------------------------------------------------------------------------------------


def _show_uncaught(error: BaseException, reporter: Reporter) -> None:
    """Shows the traceback as Python prints it, without frames of outplace, and the diagnosis below it."""
    carried = dispatch.take_diagnoses(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    _call_hook(error)
    if sys.stderr is not None:
        sys.stderr.flush()
    show(reporter, carried, survived=False)


def _call_hook(error: BaseException) -> None:
    """Calls the program's sys.excepthook, which may fail or be gone."""
    try:
        if not hasattr(sys, "excepthook"):
            print("sys.excepthook is missing", file=sys.stderr)
            sys.__excepthook__(type(error), error, error.__traceback__)
        else:
            sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit:
        raise
    except BaseException as trouble:
        caller_frames.trim(trouble)
        trouble.__context__ = None
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(trouble), trouble, trouble.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)


def _show_no_more() -> None:
    """The error has been shown, so the next call of the hook, by Python, prints nothing."""
    lifecycle.put(SHOWN)


def _quiet() -> Iterator[Patch]:
    why = "After Ctrl-C the error has been shown, and Python must not show it again."
    yield replaced(sys, "excepthook", lambda previous: lambda *_: setattr(sys, "excepthook", previous), why)


SHOWN = Section("an error that has been shown", _quiet)
