"""`outplace run prog.py` is `python prog.py`: the same program both ways, side by side."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import zipfile

import pytest

from side_by_side import OUTPLACE, PYTHON, both, environment, finish, outplace, plain, same, start, write

# -- endings --------------------------------------------------------------------------------------------------------

ENDINGS = {
    "exit-0": "print('fine')",
    "exit-3": "import sys; print('bye'); sys.exit(3)",
    "exit-text": "import sys; sys.exit('that was wrong')",
    "exit-none": "import sys; sys.exit()",
    "exit-true": "import sys; sys.exit(True)",
    "exit-in-function": "def f():\n    raise SystemExit(4)\nf()",
    "os-exit": "import os, sys; print('x'); sys.stdout.flush(); os._exit(7)",
    "abort": "import os, sys; sys.stderr.close(); os.abort()",
    "sigterm-to-itself": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "sigint-to-itself": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "raises-keyboard-interrupt": "import atexit; atexit.register(print, 'atexit'); raise KeyboardInterrupt",
    "binary-output": "import sys; sys.stdout.buffer.write(bytes(range(256)) * 3)",
    "unfinished-line": "print('no newline', end=''); import sys; sys.stderr.write('nor here')",
    "empty": "",
    "only-comment": "# nothing",
    "output-order": """
        import atexit, threading, time
        class Late:
            def __del__(self): print('deleted')
        late = Late()
        atexit.register(print, 'atexit')
        def work():
            time.sleep(0.2); print('thread')
        threading.Thread(target=work).start()
        print('main')
        """,
}

TRACEBACKS = {
    "error": "def f(x):\n    return 1 / x\n\nprint('before')\nf(  0 )",
    "long-statement": "def f(a, b):\n    return a + b\n\nx = [\n    1,\n    f(\n        1,\n        'a',\n    ),\n]",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('no') from e",
    "in-handler": "try:\n    {}['a']\nexcept KeyError:\n    [][1]",
    "suppressed": "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('no') from None",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError('a')])",
    "group-caught": """
        try:
            raise ExceptionGroup('g', [ValueError(1), TypeError('a')])
        except* ValueError as g:
            print(g.exceptions)
        """,
    "notes": "e = ValueError('a')\ne.add_note('mine')\nraise e",
    "custom-class": "class Mine(Exception):\n    def __str__(self):\n        return 'my words'\nraise Mine(1, 2)",
    "recursion": "def f(n):\n    return f(n + 1)\n\nf(0)",
    "recursion-caught": """
        def f(n):
            return f(n + 1)
        try:
            f(0)
        except RecursionError as e:
            print('caught', e)
        """,
    "lambda-and-comprehension": "f = lambda x: [1 / y for y in x]\nprint(f([1]))\nlist(f(z) for z in [[1], [0]])",
    "generator": "def g():\n    x = yield 1\n    yield 1 / x\n\nit = g()\nnext(it)\nit.send(0)",
    "async": """
        import asyncio
        async def a():
            await asyncio.sleep(0)
            return 1 / 0
        async def b():
            return await a()
        asyncio.run(b())
        """,
    "method-chain": "class A:\n    def b(self): return self\n    def c(self): 1 / 0\nA().b(\n).c(\n)",
    "with": """
        class C:
            def __enter__(self): return self
            def __exit__(self, *a): raise ValueError('in exit')
        with C():
            1 / 0
        """,
    "decorator": "def deco(f):\n    raise ValueError('no')\n\n@deco\ndef f(): pass",
    "class-body": "class A:\n    x = 1\n    y = (\n        1 /\n        0\n    )",
    "assert": "x = 1\nassert x == 2, 'must be two'",
    "while-condition": "x = 3\nwhile 1 / x:\n    x -= 1",
    "for-iterator": "def g():\n    yield 1\n    raise ValueError('in g')\n\nfor x in g():\n    print(x)",
    "if-elif": "x = 0\nif x:\n    pass\nelif 1 / x:\n    pass",
    "augmented": "x = {}\nx['a'] += 1",
    "unpack": "a, (b, *c) = 1, 2",
    "fstring": "x = 0\nprint(f'{x}: {1 / x}')",
    "return-in-try": "def f():\n    try:\n        return 1 / 0\n    finally:\n        print('finally')\nf()",
    "in-thread": """
        import threading
        def work():
            1 / 0
        t = threading.Thread(target=work, name='worker')
        t.start(); t.join()
        print('main goes on')
        """,
    "in-del": "class A:\n    def __del__(self):\n        1 / 0\nA()\nprint('goes on')",
    "in-atexit": "import atexit\n@atexit.register\ndef f():\n    1 / 0\nprint('end')",
    "syntax-error": "x = 1\nif x\n    print(x)",
    "syntax-error-late": "def f():\n    x = 1\n    global x",
    "syntax-error-return": "print(1)\nreturn 3",
    "syntax-error-future": "x = 1\nfrom __future__ import annotations",
    "syntax-error-await": "def f():\n    await x",
    "syntax-error-star": "def f(a, a): pass",
    "indentation-error": "def f():\n  x = 1\n    y = 2",
    "tab-error": "if 1:\n\tx = 1\n        y = 2",
    "syntax-warning": "x = 1\nprint(x is 1)\nassert (x, 'always true')\nprint('a' 'b' is x)",
    "escape-warning": "print(len('\\d'))",
    "warning": """
        import warnings
        def f():
            warnings.warn('careful')
            warnings.warn('caller', stacklevel=2)
        f()
        warnings.warn_explicit('x', UserWarning, __file__, 3)
        warnings.warn(
            'old',
            DeprecationWarning,
        )
        """,
    "print-exc": """
        import traceback, logging
        def f(): return (1 +
                         None)
        try:
            f()
        except TypeError:
            traceback.print_exc()
            logging.exception('logged')
        """,
    "excepthook-replaced": """
        import sys
        def hook(kind, value, tb):
            print('HOOK', kind.__name__, value, tb.tb_frame.f_code.co_name, tb.tb_lineno)
        sys.excepthook = hook
        1 / 0
        """,
    "excepthook-fails": "import sys\ndef hook(*a):\n    {}['x']\nsys.excepthook = hook\n1 / 0",
    "excepthook-exits": "import sys\nsys.excepthook = lambda *a: sys.exit(9)\n1 / 0",
    "excepthook-gone": "import sys\ndel sys.excepthook\n1 / 0",
    "excepthook-untouched": "import sys\nprint(sys.excepthook is sys.__excepthook__)",
    "last-value": """
        import atexit, sys
        atexit.register(lambda: print(repr(sys.last_value), sys.last_traceback.tb_lineno))
        1 / 0
        """,
    "stderr-none": "import sys\nsys.stderr = None\n1 / 0",
    "print-stack": """
        import logging, traceback
        def f():
            traceback.print_stack()
            print(len(traceback.extract_stack()), traceback.format_stack()[0])
            logging.warning('here', stack_info=True)
        f()
        """,
    "import-fails": "import no_such_module_anywhere",
    "thread-hook-replaced": """
        import threading
        threading.excepthook = lambda args: print('mine', args.exc_type, args.thread.name)
        t = threading.Thread(target=lambda: 1 / 0, name='t'); t.start(); t.join()
        """,
}


@pytest.mark.parametrize("name", [*ENDINGS, *TRACEBACKS])
def test_ends_as_under_python(tmp_path, name):
    write(tmp_path, "prog.py", {**ENDINGS, **TRACEBACKS}[name])
    same(*both(tmp_path, "prog.py", "one", "two"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_from_outside(tmp_path, number):
    program = """
        import time
        try:
            print('up', flush=True)
            time.sleep(30)
        finally:
            print('cleaned', flush=True)
        """
    write(tmp_path, "prog.py", program)
    processes = [start([PYTHON, "prog.py"], tmp_path), start([OUTPLACE, "run", "prog.py"], tmp_path)]
    for process in processes:
        process.stdout.readline()
        time.sleep(0.2)  # until it sleeps
        process.send_signal(number)
    endings = [finish(process) for process in processes]
    same(*endings)
    assert endings[1].code == -number


def test_what_a_shell_sees(tmp_path):
    write(tmp_path, "prog.py", "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)")
    for command in (f"{OUTPLACE} run prog.py", f"{PYTHON} -m outplace run prog.py"):
        shell = subprocess.run(
            ["bash", "-c", f"{command}; echo $?"], cwd=tmp_path, env=environment(), capture_output=True
        )
        assert shell.stdout == b"130\n"


def test_a_closed_pipe(tmp_path):
    write(tmp_path, "prog.py", "for i in range(100_000):\n    print(i)")
    write(tmp_path, "late.py", "import sys, time\nprint(1)\nsys.stdout.flush()\ntime.sleep(0.3)\nprint(2)")
    for program in ("prog.py", "late.py"):
        endings = []
        for command in (PYTHON, f"{OUTPLACE} run"):
            line = f"{command} {program} | head -1; echo ${{PIPESTATUS[0]}}"
            endings.append(finish(start(["bash", "-c", line], tmp_path)))
        same(*endings)


# -- the program's own view of itself -------------------------------------------------------------------------------

VIEW = """
    # -*- coding: utf-8 -*-
    '''The docstring.'''
    import os, sys, inspect, pickle, dataclasses, enum, typing
    @dataclasses.dataclass
    class Point:
        '''A point.'''
        x: int
        y: "float" = 2.0
    class Colour(enum.Enum):
        RED = enum.auto()
        BLUE = 3
    def function(a, b: int = 3, *c, d, **e) -> str:
        '''Says something.

        >>> function(1, d=2)
        1
        '''
        return a
    value: int = 3
    print(sorted(globals()))
    print(list(globals())[:7], dir() == sorted(globals()))
    print(__name__, __file__ if '__file__' in globals() else '-', __package__, __doc__, __annotations__)
    print(__spec__ and (__spec__.name, __spec__.parent, __spec__.origin, __spec__.cached, type(__spec__.loader)))
    print(type(__loader__), getattr(__loader__, 'path', None), getattr(__loader__, 'name', None))
    print(sys.argv, sys.path[0], os.getcwd(), sys.modules['__main__'].__dict__ is globals())
    print(__builtins__, sys.flags, sys.getrecursionlimit(), sys.gettrace(), sys.getprofile())
    print(pickle.loads(pickle.dumps(Point(1))), pickle.dumps(Colour.RED), list(Colour), repr(Point))
    print(typing.get_type_hints(function), function.__doc__, inspect.signature(function), function.__module__)
    def scope():
        a = 1
        print(locals(), sys._getframe().f_lineno, sys._getframe().f_code.co_varnames, inspect.currentframe().f_lineno)
        class B:
            x = 1
            print(sorted(locals()))
        return [sorted(locals()) for i in range(2)], sys._getframe().f_back.f_lineno
    print(scope())
    import __main__
    print(__main__.value, __main__ is sys.modules['__main__'])
    if __file__ if '__file__' in globals() else None:
        print(inspect.getsource(function), inspect.getsource(Point), inspect.getsourcefile(scope))
        import doctest
        print(doctest.testmod())
    if __name__ == "__main__":
        print('as main')
    """


def test_a_script_sees_itself_as_under_python(tmp_path):
    write(tmp_path, "deep/prog.py", VIEW)
    write(
        tmp_path,
        "deep/beside.py",
        "print(__name__, __file__, __spec__.cached, __cached__, type(__loader__), __package__)",
    )
    (tmp_path / "link.py").symlink_to("deep/prog.py")
    with open(tmp_path / "deep/prog.py", "a") as file:
        file.write("import beside\nprint(beside, beside.__spec__.loader.get_source('beside'))\n")
    same(*both(tmp_path, "deep/prog.py", "-x", "--json", "a b", "--", "ä"))
    same(*both(tmp_path, str(tmp_path / "deep" / "prog.py")))
    same(*both(tmp_path, "link.py"))


def test_options_after_the_program_are_the_programs(tmp_path):
    write(tmp_path, "prog.py", "import sys; print(sys.argv)")
    same(*both(tmp_path, "prog.py", "--help"))
    same(*both(tmp_path, "prog.py", "-m", "x", "-c", "y", "--version"))
    ours = outplace(tmp_path, "run", "--json", "o.json", "--", "prog.py", "a")
    assert ours.stdout == b"['prog.py', 'a']\n"


def test_a_module(tmp_path):
    write(tmp_path, "pkg/__init__.py", "import sys; print('init', __name__, sys.argv, __spec__.name)")
    write(
        tmp_path, "pkg/mod.py", VIEW + "    from . import sibling\n    from .sibling import name as n\n    print(n)\n"
    )
    write(tmp_path, "pkg/sibling.py", "name = __name__, __package__, __file__, __spec__.parent")
    write(
        tmp_path,
        "pkg/__main__.py",
        "from . import sibling; print(__name__, __package__, __file__); import sys; print(sys.argv)",
    )
    write(tmp_path, "pkg/fails.py", "def f():\n    return 1 / 0\nf()")
    write(tmp_path, "pkg/broken.py", "if:")
    write(tmp_path, "sad/__init__.py", "import missing_thing")
    write(tmp_path, "sad/mod.py", "")
    write(tmp_path, "bare/mod.py", "print(__spec__.name, __package__)")
    for name in ("pkg.mod", "pkg", "pkg.fails", "pkg.broken", "sad.mod", "bare.mod"):
        same(*both(tmp_path, "-m", name, "x", "--json"))
    for name in ("no_such", "pkg.no_such", "bare"):
        expected, actual = both(tmp_path, "-m", name)
        assert (actual.code, actual.stderr) == (expected.code, expected.stderr)
    assert outplace(tmp_path, "run", "-m").code == 2


def test_a_folder_and_an_archive(tmp_path):
    write(tmp_path, "app/__main__.py", VIEW + "    import helper\n    print(helper.x)\n    1 / 0\n")
    write(tmp_path, "app/helper.py", "x = __file__")
    write(tmp_path, "nothing/other.py", "")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", "import sys, helper\nprint(__file__, sys.argv, sys.path[0], helper.x)\n")
        archive.writestr("helper.py", "x = 3")
    same(*both(tmp_path, "app", "x"))
    same(*both(tmp_path, "app.zip", "x"))
    same(*both(tmp_path, "nothing"))


def test_code_on_the_command_line(tmp_path):
    import textwrap

    same(*both(tmp_path, "-c", textwrap.dedent(VIEW), "a", "-b"))
    same(
        *both(
            tmp_path,
            "-c",
            "def f():\n    1 / 0\nimport traceback\ntry: f()\nexcept ZeroDivisionError: traceback.print_exc()\nf()",
        )
    )
    same(*both(tmp_path, "-c", "if"))
    same(*both(tmp_path, "-c", "return"))
    assert outplace(tmp_path, "run", "-c").code == 2


def test_standard_input(tmp_path):
    endings = []
    for words in ([PYTHON, "-", "x"], [OUTPLACE, "run", "-", "x"]):
        source = b"import sys\nprint(sys.argv, __name__, sys.path[0] == '', __file__, list(globals()))\n1 / 0"
        endings.append(subprocess.run(words, input=source, cwd=tmp_path, env=environment(), capture_output=True))
    expected, actual = endings
    assert (actual.returncode, actual.stdout, actual.stderr) == (1, expected.stdout, expected.stderr)


@pytest.mark.parametrize(
    "source",
    {
        "latin-1": b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'), '\xe9' == chr(233))\n1 / 0 # \xe9\n",
        "bom": b"\xef\xbb\xbfx = 'h\xc3\xa9'\nprint(ascii(x)); raise ValueError(x)\n",
        "crlf": b"def f():\r\n    '''a\r\n    b'''\r\n    return 1 / 0\r\nprint(repr(f.__doc__))\r\nf()\r\n",
        "tabs": b"if True:\n\tx = 1\n\tif x:\n\t\tprint(x)\n\t\t1 / 0\n",
        "form-feed": b"x = 1\n\x0c\ndef f():\n    return x / 0\nf()\n",
        "no-final-newline": b"print(1)\n1 / 0",
        "wide-characters": "名前 = 0\nprint('é漢字', 1 / 名前)\n".encode(),
        "continued": b"x = 1 + \\\n    2\nprint(x)\nx = x / \\\n   0\n",
        "shebang": b"#!/usr/bin/env python\n# vim: set fileencoding=utf-8 :\nprint(1)\n",
    }.items(),
    ids=lambda case: case[0],
)
def test_encodings_and_line_ends(tmp_path, source):
    (tmp_path / "prog.py").write_bytes(source[1])
    same(*both(tmp_path, "prog.py"))


def test_a_file_that_is_no_program(tmp_path):
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "nul.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "coding.py").write_bytes(b"# coding: no-such-thing\nprint(1)\n")
    for name in ("binary", "nul.py", "coding.py"):
        expected, actual = both(tmp_path, name)
        assert actual.code == expected.code == 1
        assert actual.stderr.splitlines()[-1].split(":")[0] == expected.stderr.splitlines()[-1].split(":")[0]
        assert "outplace/" not in actual.stderr


def test_a_script_that_another_one_runs(tmp_path):
    write(tmp_path, "prog.py", "import runpy, sys; print(runpy.run_path('inner.py', run_name='x')['y'], sys.argv)")
    write(tmp_path, "inner.py", "def f():\n    return 1 / (len(__name__) - 1)\ny = 3\nprint(__file__)\nf()")
    same(*both(tmp_path, "prog.py", "a"))


def test_no_such_file(tmp_path):
    expected, actual = both(tmp_path, "nothing.py")
    assert actual.code == expected.code == 2
    assert actual.stderr == f"outplace: can't open file '{tmp_path}/nothing.py': [Errno 2] No such file or directory\n"
    assert expected.stderr.endswith(actual.stderr.removeprefix("outplace"))


def test_a_syntax_error_in_an_imported_module(tmp_path):
    write(tmp_path, "prog.py", "import sub.bad")
    write(tmp_path, "sub/bad.py", "def f(:\n    pass\n")
    same(*both(tmp_path, "prog.py"))


def test_modules_beside_the_program_are_loaded_as_ever(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import importlib.util, sys
        import mod, click, queue
        print(mod.counter, click.mine, queue.mine)
        mod.counter = 5
        print(importlib.reload(mod).counter, mod.__spec__.loader is mod.__loader__, mod.__cached__)
        with open(mod.__file__, 'a') as f: f.write('counter = 44\\n')
        print(importlib.reload(mod).counter)
        print(importlib.util.find_spec('mod').origin, importlib.util.find_spec('no_such'))
        del sys.modules['mod']
        import mod as again
        print(again is mod, again.counter)
        """,
    )
    write(tmp_path, "click.py", "mine = True")
    write(tmp_path, "queue.py", "mine = True")
    mod = write(tmp_path, "mod.py", "counter = 1\n")
    expected = plain(tmp_path, "prog.py")
    mod.write_text("counter = 1\n")
    same(expected, outplace(tmp_path, "run", "prog.py"))


# -- child processes, without torch -----------------------------------------------------------------------------------

PROCESSES = """
    import concurrent.futures, multiprocessing, os, pickle, subprocess, sys
    class Thing:
        def __init__(self, x): self.x = x
    def work(thing):
        thing.x += 1
        return thing
    def fails(x):
        raise ValueError(x)
    if __name__ == "__main__":
        for way in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(way)
            with context.Pool(2) as pool:
                print([thing.x for thing in pool.map(work, [Thing(i) for i in range(3)])])
                try:
                    pool.apply(fails, (way,))
                except ValueError as e:
                    print(repr(e), 'outplace' in str(e.__cause__))
            process = context.Process(target=sys.exit, args=(5,))
            process.start(); process.join(); print(process.exitcode, flush=True)
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            print([t.x for t in pool.map(work, [Thing(1)])])
        if os.fork() == 0:
            print('child', flush=True)
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        words = [sys.executable, '-c', 'import sys; print(sys.argv, "torch" in sys.modules)', 'x']
        print(subprocess.run(words, capture_output=True))
    """


def test_child_processes(tmp_path):
    write(tmp_path, "prog.py", PROCESSES)
    same(*both(tmp_path, "prog.py"))
    write(tmp_path, "pkg/prog.py", PROCESSES)
    same(*both(tmp_path, "-m", "pkg.prog"))


# -- with torch: the diagnosis ----------------------------------------------------------------------------------------

STEP = """
    import torch
    def step():
        w = torch.ones(3, requires_grad=True)
        h = (w * 2).exp()
        h += 1
        h.sum().backward()
"""


def found(path):
    return [
        (
            entry["kind"],
            entry["raised_at"]["line"],
            [mutation["site"]["line"] for mutation in entry["mutations"]],
            entry["saved_by"] and entry["saved_by"]["site"]["line"],
        )
        for entry in json.loads(path.read_text())["diagnoses"]
    ]


def test_the_diagnosis_comes_below_the_traceback_that_python_prints(tmp_path):
    """Also where the program only looks for torch at first, imports it late, and goes to another folder."""
    (tmp_path / "elsewhere").mkdir()
    write(
        tmp_path,
        "prog.py",
        """
        import importlib.util, os
        print(importlib.util.find_spec("torch").name)
        os.chdir("elsewhere")
        def train():
            import torch
            print(torch.__loader__.__class__, torch.__spec__.loader is torch.__loader__)
            w = torch.ones(3, requires_grad=True)
            h = (w * 2).exp()
            h += 1
            h.sum().backward()
        train()
        """,
    )
    expected = start([PYTHON, "prog.py"], tmp_path)
    actual = outplace(tmp_path, "run", "--json", "o.json", "prog.py")
    expected = finish(expected)
    assert actual.code == expected.code == 1
    assert actual.stdout == expected.stdout
    assert actual.stderr.startswith(expected.stderr)
    diagnosis = actual.stderr.removeprefix(expected.stderr)
    assert diagnosis.startswith(
        "\nOUT201 saved: h (float32[3]) was overwritten after exp kept it for backward\n\n  prog.py:8 "
    )
    assert diagnosis.count("OUT201 saved") == 1
    assert found(tmp_path / "o.json") == [("saved", 10, [9], 8)]
    assert json.loads((tmp_path / "o.json").read_text())["diagnoses"][0]["raised_at"]["file"] == "prog.py"


def test_a_program_that_catches_the_error_itself(tmp_path):
    source = (
        STEP
        + """
    import logging, os, signal, sys, contextlib
    for i in range(30):
        try:
            step()
        except RuntimeError as e:
            if i == 0:
                print(len(e.outplace_diagnoses), len(e.__notes__), e.outplace_diagnoses[0].tensor.name)
                logging.exception('it failed')
    with contextlib.suppress(RuntimeError):
        step()
    try:
        torch.ones(2, requires_grad=True).add_(1)
    except Exception as e:
        print(e.outplace_diagnoses[0].kind)
    class Odd(RuntimeError):
        def __str__(self): raise ValueError('do not ask me')
    try: raise Odd('a leaf Variable that requires grad')
    except RuntimeError: pass
    if sys.argv[1] == 'killed': os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == 'torch-gone': del sys.modules['torch']
    """
    )
    write(tmp_path, "prog.py", source)
    endings = [
        start([OUTPLACE, "run", "--json", f"{w}.json", "prog.py", w], tmp_path) for w in ("torch-gone", "killed")
    ]
    whole, killed = [finish(process) for process in endings]
    for name in ("torch-gone", "killed"):
        assert found(tmp_path / f"{name}.json") == [("saved", 6, [5], 4), ("leaf", 19, [19], None)]
    assert (whole.code, killed.code) == (0, -9)
    assert whole.stdout == b"1 1 h\nleaf\n"
    logged, at_end = whole.stderr.split("\noutplace: the program caught these 2 in-place errors itself:\n")
    assert logged.startswith("ERROR:root:it failed\nTraceback")
    assert logged.count("OUT201 saved: h") == 1
    assert at_end.count("OUT201 saved: h") == at_end.count("OUT101 leaf: ") == 1
    assert "outplace/runtime" not in whole.stderr


def test_failures_in_threads_and_child_processes(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import concurrent.futures, multiprocessing, threading, torch, torch.multiprocessing
        from torch.utils.data import DataLoader, Dataset
        def step():
            w = torch.ones(3, requires_grad=True)
            h = (w * 2).exp()
            h += 1
            h.sum().backward()
        def in_thread():
            step()
        def leaf_in_thread():
            torch.ones(2, requires_grad=True).add_(1)
        def forked():
            w = torch.ones(3, requires_grad=True)
            w.mul_(2)
        def spawned():
            w = torch.ones(3, requires_grad=True)
            w.div_(2)
        def rank(i):
            w = torch.ones(3, requires_grad=True)
            w.sub_(2)
        class Data(Dataset):
            def __len__(self): return 2
            def __getitem__(self, i):
                if i == 1:
                    torch.zeros(2, requires_grad=True).exp_()
                return i
        if __name__ == "__main__":
            for target in (in_thread, leaf_in_thread):
                thread = threading.Thread(target=target); thread.start(); thread.join()
            for way, target in (("fork", forked), ("spawn", spawned)):
                process = multiprocessing.get_context(way).Process(target=target, name=way)
                process.start(); process.join(); print(process.exitcode, flush=True)
            try:
                for batch in DataLoader(Data(), num_workers=1): print(batch, flush=True)
            except RuntimeError as e:
                print(str(e).splitlines()[0])
            context = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                try: pool.submit(forked).result()
                except RuntimeError as e: print(e.outplace_diagnoses[0].code)
            torch.multiprocessing.spawn(rank, nprocs=1)
        """,
    )
    ending = outplace(tmp_path, "run", "--json", "o.json", "prog.py", OMP_NUM_THREADS="1")
    assert ending.stdout.decode().splitlines() == [
        *["1", "1", "tensor([0])"],
        "Caught RuntimeError in DataLoader worker process 0.",
        "OUT101",
    ]
    assert ending.code == 1
    assert sorted(found(tmp_path / "o.json"), key=str) == [
        *[("leaf", line, [line], None) for line in (11, 14, 17, 20, 25)],
        ("saved", 7, [6], 5),
    ]
    before_end, _, at_end = ending.stderr.partition("outplace: the program caught")
    for name in ("Exception in thread Thread-1", "Exception in thread Thread-2", "Process fork:", "Process spawn:"):
        assert name in before_end
        own = before_end.partition(name)[2]
        assert "OUT" in own[: own.find("More: outplace explain")]
    assert "-- Process 0 terminated with the following error:" in before_end
    assert "in rank\n" in before_end.partition("-- Process 0")[2].partition("OUT101 leaf: w")[2]
    assert at_end.count("OUT101 leaf") <= 1  # the pool's, which the program caught
    assert "outplace/runtime" not in ending.stderr


def test_what_torch_warns_of_names_the_line_of_the_program(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import torch
        x = torch.zeros(3)
        x[torch.tensor([1, 0, 1], dtype=torch.uint8)] = torch.ones(2)
        x.expand(2, 3)[torch.tensor([0, 1])] = 1.0
        class Told(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                print(func.__name__, func is torch.Tensor.__setitem__)
                return super().__torch_function__(func, types, args, kwargs or {})
        x.as_subclass(Told)[0] = 1
        x.__setitem__(0, 5.0)
        try:
            x.__setitem__(0)
        except TypeError as error:
            print(error)
        """,
    )
    expected, actual = both(tmp_path, "prog.py")
    assert expected.stderr.count("UserWarning") == 2
    same(expected, actual)


def test_programs_that_do_nothing_wrong_stay_quiet(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import sys, threading, torch, warnings
        from torch.utils.data import DataLoader
        warnings.simplefilter('error')
        class Rows(list):
            pass
        def collate(rows): return torch.stack(rows)
        if __name__ == "__main__":
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 1))
            optimizer = torch.optim.Adam(net.parameters())
            rows = Rows(torch.randn(4) for _ in range(16))
            for way in ("fork", "spawn"):
                loader = DataLoader(rows, 4, num_workers=2, collate_fn=collate, multiprocessing_context=way)
                for batch in loader:
                    optimizer.zero_grad()
                    loss = net(batch).square().mean()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
                    print(float(loss).hex(), flush=True)
            def worker():
                w = torch.ones(3, requires_grad=True)
                (w * 2).exp().sum().backward()
                print(w.grad, flush=True)
            thread = threading.Thread(target=worker); thread.start(); thread.join()
            print([parameter.sum().item().hex() for parameter in net.parameters()])
            print(torch.Tensor.add_ is torch._C.TensorBase.add_, loss)
            sys.exit(3)
        """,
    )
    same(*both(tmp_path, "prog.py", OMP_NUM_THREADS="1"))


def test_outplace_in_the_environment_attaches_to_plain_python(tmp_path):
    write(tmp_path, "prog.py", STEP + "    step()\n")
    ending = plain(tmp_path, "prog.py", OUTPLACE="1")
    assert ending.code == 1
    head, _, note = ending.stderr.partition("\n\nOUT201 saved: h (float32[3]) was overwritten")
    assert head.splitlines()[-1].startswith("RuntimeError: one of the variables needed")
    assert "prog.py:4 in step" in note and "overwritten here: +=" in note
    assert "Error detected in" not in ending.stderr
    assert "outplace/runtime" not in ending.stderr


def test_a_runner_of_other_peoples_code(tmp_path):
    """pytest loads tests in its own way; the lines are right all the same."""
    write(
        tmp_path,
        "test_it.py",
        STEP + "    def test_step():\n        for _ in range(2): x = torch.ones(1) * 2\n        step()\n",
    )
    ending = outplace(tmp_path, "run", "--json", "o.json", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert ending.code == 1
    assert found(tmp_path / "o.json") == [("saved", 6, [5], 4)]
    assert "OUT201 saved: h" in ending.stdout.decode()
