"""Files of the user's own get marks whoever loads them; what a program asks of `compile`, Python answers."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import runpy
from pathlib import Path

import pytest

from outplace.runtime import instrument
from outplace.runtime.patches import source_loading
from outplace.runtime.patches.table import Section, Table

table = Table()
MARKS = Section("marks", lambda: [*source_loading.names(), *source_loading.loaders()])

SOURCE = "from __future__ import annotations\n\n\ndef double(x: Nowhere):\n    return x * 2\n"


@pytest.fixture
def file(tmp_path: Path):
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    table.open(MARKS)
    yield path
    table.close()


def has_marks(function) -> bool:
    return any(name.startswith("__outplace") for name in function.__code__.co_names)


def by_spec(path):
    spec = importlib.util.spec_from_file_location("doubling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def by_loader(path):
    return vars(importlib.machinery.SourceFileLoader("doubling", str(path)).load_module())


def by_run_path(path):
    return runpy.run_path(str(path))


def by_compile(path):
    caller = "def load(text, path):\n    space = {}\n    exec(compile(text, path, 'exec'), space)\n    return space\n"
    space = {}
    exec(instrument.compile_marked(caller, "/programs/caller.py"), space)
    return space["load"](path.read_text(), str(path))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("load", [by_spec, by_loader, by_run_path, by_compile])
def test_a_file_has_marks_whoever_loads_it(file, load):
    double = load(file)["double"]
    assert double(21) == 42
    assert double.__annotations__ == {"x": "Nowhere"}
    assert has_marks(double)


def test_no_marks_once_they_are_taken_out(file):
    table.close()
    assert not any(has_marks(load(file)["double"]) for load in (by_spec, by_run_path, by_compile))


def test_a_loader_that_compiles_in_its_own_way_is_left_alone(file):
    class Tripling(importlib.machinery.SourceFileLoader):
        def source_to_code(self, data, path, *, _optimize=-1):
            return compile(bytes(data).replace(b"* 2", b"* 3"), path, "exec", dont_inherit=True)

        def path_stats(self, path):  # as if there were no .pyc
            raise OSError

    spec = importlib.util.spec_from_file_location("tripling", file, loader=Tripling("tripling", str(file)))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.double(2) == 6


CALLS = [
    "compile('1 + 1', '<sum>', 'eval')",
    "compile(source='x = 2', filename='<x>', mode='exec', flags=0, dont_inherit=True, optimize=0)",
    "compile('def f(a: Nowhere): pass', '<f>', 'exec')",
    "compile('def f(a: int): pass', '<f>', 'exec', dont_inherit=True)",
    "compile('assert 0, 1', __file__, 'exec', optimize=2)",
    "compile('x = 1', __file__, 'exec', __import__('ast').PyCF_ONLY_AST).body[0].lineno",
    "compile(b'x = 1', __file__.encode(), 'exec')",
]


def results_of(call: str, path: Path, compiled) -> object:
    source = f"from __future__ import annotations\n\n\ndef ask():\n    return {call}\n"
    space = {"__file__": str(path)}
    exec(compiled(source), space)
    code = space["ask"]()
    if not hasattr(code, "co_code"):
        return code
    inner = {}
    value = eval(code, inner)
    inner.pop("__builtins__", None)
    return value, {name: getattr(made, "__annotations__", made) for name, made in inner.items()}


@pytest.mark.parametrize("call", CALLS)
def test_compile_answers_as_python_does(file, call):
    plain = results_of(call, file, lambda source: compile(source, "/programs/ask.py", "exec", dont_inherit=True))
    marked = results_of(call, file, lambda source: instrument.compile_marked(source, "/programs/ask.py"))
    assert marked == plain


def test_what_compile_refuses_it_refuses_in_its_own_words(file):
    space = {}
    exec(instrument.compile_marked("def ask(*a): return compile(*a)", "/programs/ask.py"), space)
    for arguments in (("x = (", str(file), "exec"), ("1", str(file), "nonsense"), (3, str(file), "exec")):
        with pytest.raises((SyntaxError, ValueError, TypeError)) as plain:
            compile(*arguments)
        with pytest.raises(type(plain.value)) as marked:
            space["ask"](*arguments)
        assert str(marked.value) == str(plain.value)


def test_another_function_called_compile_is_called(file):
    space = {}
    exec(instrument.compile_marked("def compile(x): return x + 1\ny = compile(1)", "/programs/own.py"), space)
    assert space["y"] == 2
