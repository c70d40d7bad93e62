"""Runs the Python blocks of pages, each page in a child of a process that has torch already.

stdin: a JSON list of `{"page", "folder", "blocks": [[name, set-up, source], ...]}`; stdout: one line a page,
`page<TAB>fault`. Source with prompts (`>>>`) is held against the output that it shows.
"""

import contextlib
import doctest
import io
import json
import os
import sys
import traceback

import torch  # noqa: F401


def run(page: dict) -> str:
    os.chdir(page["folder"])
    sys.path.insert(0, page["folder"])
    names = {"__name__": "__main__"}
    for name, setup, source in page["blocks"]:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                exec(compile(setup, f"{name} (set-up)", "exec"), names)
                if not source.startswith(">>>"):
                    exec(compile(source, name, "exec"), names)
                    continue
            told = io.StringIO()
            test = doctest.DocTestParser().get_doctest(source + "\n", names, name, None, 0)
            if doctest.DocTestRunner().run(test, out=told.write, clear_globs=False).failed:
                return told.getvalue()
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return f"{name}: {type(error).__name__}: {error} (line {last.lineno})"
    return ""


for page in json.load(sys.stdin):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writing, "w") as stream:
            stream.write(" ".join(run(page).split()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        fault = stream.read()
    _, status = os.waitpid(child, 0)
    print(page["page"], fault or (f"died: {status}" if status else ""), sep="\t", flush=True)
