"""Runs programs under `outplace run`, each in a fork of a process that has torch and outplace loaded.

So the start-up is paid once. Reads one JSON request a line ({"arguments", "folder", "output"}) and answers each with
the exit status.
"""

import gc
import importlib
import json
import os
import pkgutil
import sys
import traceback

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
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that it shares


def run(request: dict) -> None:
    """In the child: becomes `outplace ARGUMENTS` in the folder asked for."""
    os.chdir(request["folder"])
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    if request.get("anomaly"):  # PyTorch's own word on who saved the tensor
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        import runpy

        sys.path[0] = request["folder"]
        runpy.run_path(request["arguments"][-1], run_name="__main__")
        return
    from outplace.cli.main import main

    sys.argv = ["outplace", *request["arguments"]]
    sys.exit(main())


def serve() -> None:
    load()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 0
            try:
                run(json.loads(line))
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    serve()
