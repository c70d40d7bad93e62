"""Runs programs in forks of a process that has torch and outplace loaded: so the start-up is paid once.

Reads one JSON request a line and answers each with the exit status. A request has `words`, what would follow `python`,
and `folder`, `environment`, `stdout`, `stderr`. The processes of `outplace` that such a program starts are forks, too.
"""

import atexit
import builtins
import contextlib
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import subprocess
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from typing import NoReturn

import torch
import torch._dynamo
import torch.utils.checkpoint

from outplace.knowledge.ops import lookup
from outplace.runtime.patches.table import listed
from outplace.runtime.program.attachment import Attachment

USED = ("cli", "knowledge", "repair", "report", "runtime", "source")
"""The parts of outplace that a run may load."""


def load() -> None:
    """Loads what every run would load by itself. Nothing is attached."""
    for name in USED:
        part = importlib.import_module(f"outplace.{name}")
        for module in pkgutil.walk_packages(part.__path__, f"{part.__name__}."):
            importlib.import_module(module.name)
    lookup("exp")  # reads the table of operations
    for section, row in listed(Attachment("marks").sections()):
        if row.how == "code injected" and (section.wait is None or section.wait.is_over()):
            row.put()()  # the changed code is compiled once
    torch._dynamo.disable(load)  # loads the 800 modules that the first optimizer of a program loads
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that it shares


def environment(wanted: Mapping[str, str] | None) -> None:
    """What a new process would get as its environment."""
    if wanted is not None:
        os.environ.clear()
        os.environ.update(wanted)


def python(words: list[str]) -> None:
    """Becomes `python WORDS`."""
    if words[0] == "-m":
        sys.path[0] = os.getcwd()
        if words[1] == "outplace":
            from outplace.cli.main import main

            sys.argv = ["outplace", *words[2:]]
            sys.exit(main())
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    path = os.path.join(os.getcwd(), words[0])
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    program = types.ModuleType("__main__")
    program.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = program
    with open(path, "rb") as file:
        text = file.read()
    exec(compile(text, path, "exec"), vars(program))


def become(words: list[str], streams: Sequence[int]) -> NoReturn:
    """In a child: runs the program with these streams to the very end of the process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    atexit._clear()  # what the parent wanted to do at its own end
    status = 0
    try:
        python(words)
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException as error:
        below = error.__traceback__
        while below is not None and below.tb_frame.f_code.co_filename == __file__:
            below = below.tb_next
        sys.excepthook(type(error), error.with_traceback(below), below)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # a closed pipe
            stream.flush()
    os._exit(status)


_execute = subprocess.Popen._execute_child
_signature = inspect.signature(_execute)


def fork_outplace(process: subprocess.Popen, *values, **named) -> None:
    """Instead of `Popen._execute_child`: `python -m outplace ...` is a fork of this process."""
    asked = _signature.bind(process, *values, **named).arguments
    pipes = [asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
    words = asked["args"]
    is_ours = isinstance(words, list) and words[1:3] in (["-m", "outplace"], ["-m", "outplace.cli.reclaim_child"])
    if not (is_ours and words[0] == sys.executable):
        return _execute(process, *values, **named)
    process.pid = os.fork()
    if process.pid == 0:
        if asked["start_new_session"]:
            os.setsid()
        if asked["cwd"] is not None:
            os.chdir(asked["cwd"])
        environment(asked["env"])
        ends = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
        become(words[1:], [number if end == -1 else end for number, end in enumerate(ends)])
    process._child_created = True
    process._close_pipe_fds(*pipes)
    return None


def serve() -> None:
    load()
    subprocess.Popen._execute_child = fork_outplace
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            request = json.loads(line)
            os.chdir(request["folder"])
            os.environ.update(request["environment"])
            nothing = os.open(os.devnull, os.O_RDONLY)
            # Appended to, because both may be one file.
            how = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            become(request["words"], [nothing, os.open(request["stdout"], how), os.open(request["stderr"], how)])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    serve()
