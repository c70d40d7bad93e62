"""How programs end under `outplace run`: exit codes, tracebacks, signals, closed pipes, as under plain Python."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from side_by_side import OUTPLACE, PYTHON, both, environment, finish, same, start, write

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
