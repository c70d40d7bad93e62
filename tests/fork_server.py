"""Runs programs in forks of a process that has torch and outplace loaded: so the start-up is paid once.

Reads one JSON request a line and answers each with the exit status. A request has `words`, what would follow `python`,
and `folder`, `stdout`, `stderr`. The processes of `outplace` that such a program starts are forks, too.
"""

import atexit
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
import traceback
from collections.abc import Sequence
from typing import NoReturn

import torch
import torch._dynamo
import torch.utils.checkpoint

from outplace.knowledge.ops import lookup

USED = ("cli", "knowledge", "repair", "report", "runtime", "source")
"""The parts of outplace that a run may load."""


def load() -> None:
    """Loads what every run would load by itself. Nothing is attached."""
    for name in USED:
        part = importlib.import_module(f"outplace.{name}")
        for module in pkgutil.walk_packages(part.__path__, f"{part.__name__}."):
            importlib.import_module(module.name)
    lookup("exp")  # reads the table of operations
    torch._dynamo.disable(load)  # loads the 800 modules that the first optimizer of a program loads
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that it shares


def python(words: list[str]) -> None:
    """Becomes `python WORDS`."""
    if words[:2] == ["-m", "outplace"]:
        from outplace.cli.main import main

        sys.path[0] = os.getcwd()
        sys.argv = ["outplace", *words[2:]]
        sys.exit(main())
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    runpy.run_path(words[0], run_name="__main__")


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
    except BaseException:
        traceback.print_exc()
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
    if asked["args"][:3] != [sys.executable, "-m", "outplace"]:
        return _execute(process, *values, **named)
    process.pid = os.fork()
    if process.pid == 0:
        if asked["start_new_session"]:
            os.setsid()
        os.environ.clear()
        os.environ.update(asked["env"])
        ends = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
        become(asked["args"][1:], [number if end == -1 else end for number, end in enumerate(ends)])
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
            nothing = os.open(os.devnull, os.O_RDONLY)
            # Appended to, because both may be one file.
            how = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            become(request["words"], [nothing, os.open(request["stdout"], how), os.open(request["stderr"], how)])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    serve()
