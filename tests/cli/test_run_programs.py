"""`outplace run prog.py` is `python prog.py`: what a program sees of itself, of its files and of its children."""

from __future__ import annotations

import subprocess
import zipfile

import pytest

from side_by_side import OUTPLACE, PYTHON, both, environment, outplace, plain, same, write

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
        file.write("# takes --json\nimport beside\nprint(beside, beside.__spec__.loader.get_source('beside'))\n")
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
        same(*both(tmp_path, "-m", name, "x", "--jason"))
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
    same(*both(tmp_path, "-c", "print(1 is 1)\nreturn"))
    same(*both(tmp_path, "-c", "print(1)\\"))
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
        "warnings": b"print(1 is 1)\n",
        "warnings-of-what-is-refused": b"print(1 is 1)\nreturn 1\n",
        "shebang": b"#!/usr/bin/env python\n# vim: set fileencoding=utf-8 :\nprint(1)\n",
    }.items(),
    ids=lambda case: case[0],
)
def test_encodings_and_line_ends(tmp_path, source):
    (tmp_path / "prog.py").write_bytes(source[1])
    same(*both(tmp_path, "prog.py"))


def test_a_file_that_is_no_program(tmp_path):
    files = {
        "binary": bytes(range(256)) * 4,
        "nul.py": b"x = 1\0\n",
        "coding.py": b"# coding: no-such-thing\nprint(1)\n",
        "comment.py": b"print(1)\n# caf\xe9\n",
        "string.py": b"print('caf\xe9')\n",
        "ascii.py": b"# coding: ascii\nprint('\xe9')\n",
        "bom.py": b"\xef\xbb\xbf# coding: latin-1\nprint(1)\n",
        "utf16.py": "# coding: utf-16\nprint(1)\n".encode("utf-16"),
        "utf16-by-name-only.py": b"# coding: utf-16\nprint(1)\n",
    }
    for name, source in files.items():
        (tmp_path / name).write_bytes(source)
        expected, actual = both(tmp_path, name)
        assert expected.code == 1, name
        same(expected, actual)
    endings = [
        subprocess.run(words, input=files["comment.py"], cwd=tmp_path, env=environment(), capture_output=True)
        for words in ([PYTHON, "-"], [OUTPLACE, "run", "-"])
    ]
    expected, actual = endings
    assert (actual.returncode, actual.stdout, actual.stderr) == (1, b"", expected.stderr)


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
        if os.fork() == 0:
            print('child', flush=True)
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
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
        words = [sys.executable, '-c', 'import sys; print(sys.argv, "torch" in sys.modules)', 'x']
        print(subprocess.run(words, capture_output=True))
    """


def test_child_processes(tmp_path):
    write(tmp_path, "prog.py", PROCESSES)
    same(*both(tmp_path, "prog.py"))
    write(tmp_path, "pkg/prog.py", PROCESSES)
    same(*both(tmp_path, "-m", "pkg.prog"))
