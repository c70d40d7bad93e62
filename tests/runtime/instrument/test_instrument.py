"""Code with marks does what it does without them: a table of snippets, and the standard library."""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import random
import sys
import sysconfig
import textwrap
import time
import traceback
import types
import warnings
from pathlib import Path

import pytest
from instrument_snippets import SNIPPETS

from outplace.runtime import instrument
from outplace.runtime.instrument import compile_main, compile_marked
from outplace.runtime.instrument import marks as hooks
from outplace.runtime.record import log


def result_of(code, name):
    """Everything the code prints, its error if it ends in one, and what it leaves in its globals."""
    namespace = {"__name__": name, "__file__": f"/snippets/{name}.py"}
    out, err = io.StringIO(), io.StringIO()
    ending = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            exec(code, namespace)
        except BaseException as error:
            ending = [line for line in traceback.format_exception(error) if "/runtime/" not in line][1:]
    said = [(str(one.message), one.lineno) for one in seen]
    return out.getvalue(), err.getvalue(), ending, said, sorted(namespace)


@pytest.fixture(autouse=True)
def marks():
    instrument.publish()
    yield


@pytest.mark.parametrize("name", SNIPPETS)
def test_the_same_result(name, monkeypatch):
    source, name = textwrap.dedent(SNIPPETS[name]).lstrip("\n"), f"snippet_{name}"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # dataclasses look for it
    plain = result_of(compile(source, f"/snippets/{name}.py", "exec", dont_inherit=True), name)
    marked = result_of(compile_marked(source, f"/snippets/{name}.py"), name)
    assert marked == plain
    assert plain[2] is None, plain[2]  # the snippet itself is right


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def shape(code):
    """What a function is to others, of each function and class: lambdas stand for marks in class bodies too."""
    return sorted(
        (c.co_name, c.co_firstlineno, c.co_flags, c.co_argcount, c.co_varnames, c.co_cellvars, c.co_freevars)
        for c in codes(code)
        if c.co_name != "<lambda>"
    )


def lines(code):
    return {line for c in codes(code) for _, _, line in c.co_lines() if line is not None}


def library_files():
    folders = [Path(sysconfig.get_paths()["stdlib"])]
    with contextlib.suppress(ImportError):
        import torch.nn

        folders.append(Path(torch.nn.__file__).parent)
    files = [path for folder in folders for path in folder.rglob("*.py") if path.is_file()]
    files = [path for path in files if "site-packages" not in path.parts[-4:-1]]
    random.Random(0).shuffle(files)
    return files


def test_real_code_compiles_to_the_same_functions_and_lines():
    """As many files of the standard library, its tests and torch.nn as ten seconds allow, in a fixed random order."""
    files = library_files()
    until, seen = time.monotonic() + 10, 0
    for path in files:
        source = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                plain = compile(source, str(path), "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                with pytest.raises((SyntaxError, ValueError)):
                    compile_marked(source, str(path))
                continue
            marked = compile_marked(source, str(path))
        assert shape(marked) == shape(plain), path
        # Constants that Python folds have no line in the plain code; lines that are not in the source have no excuse.
        last = source.count(b"\n") + source.count(b"\r") + 1
        assert all(0 <= line <= last for line in lines(marked)), path
        seen += 1
        if time.monotonic() > until:
            break
    assert seen > 20


@pytest.mark.parametrize(
    "source",
    [
        "if",
        "def f(a, a): pass",
        "return 1",
        "x = 1\nfrom __future__ import braces",
        "def f():\n  x\n   y",
        "\0",
        "nonlocal x",
    ],
)
def test_refused_source_is_refused_in_the_same_words(source):
    def refusal(function):
        with pytest.raises((SyntaxError, ValueError)) as caught:
            function(source)
        error = caught.value
        return type(error), str(error), getattr(error, "text", None), getattr(error, "offset", None)

    plainly = refusal(lambda text: compile(text, "<string>", "exec", dont_inherit=True))
    assert refusal(lambda text: compile_main(text, "<string>")) == plainly


def test_an_expression_too_deep_for_marks_runs_without():
    source = "x = " + "+".join(["1"] * 500) + "\n"
    compile(source, "<string>", "exec")  # Python itself has no trouble with it
    namespace = {}
    exec(compile_main(source, "<string>"), namespace)
    assert namespace["x"] == 500


def marked_lines(source):
    """The line of the mark in force at each call of `here()`."""
    seen = []

    def here(*_):
        seen.append(instrument.STATEMENTS[last[-1]].line if last[-1] is not None else None)
        return 1

    last = [None]
    instrument.put(MARK=last.append, AT=lambda value, number: last.append(number) or value)
    try:
        exec(compile_marked(textwrap.dedent(source).lstrip("\n"), "<here>"), {"here": here})
    finally:
        instrument.put(MARK=log.mark, AT=log.at)
    return seen


def test_each_statement_has_its_mark():
    source = """
        here()
        x = here()
        x += here()
        if here(): y = here()
        for i in [here()]:
            here()
        with open('/dev/null') if here() else None as f:
            here()
        """
    assert marked_lines(source) == [1, 2, 3, 4, 4, 5, 6, 7, 8]


def test_each_line_of_a_long_statement_has_its_mark():
    assert marked_lines("x = (here(1) +\n     here(\n         1))\n[\n    here(1),\n    here(2),\n]") == [1, 2, 5, 6]


def test_a_lazy_iterator_runs_under_the_mark_of_its_loop():
    source = """
        for x in map(here, [1, 2, 3]):
            y = str(
                x)
            if x == 0:
                continue
            z = len('a')
        for x in map(here, [1, 2]):
            if str(x):
                continue
        """
    assert marked_lines(source) == [1, 1, 1, 7, 7]


def test_a_condition_runs_under_its_own_mark():
    assert marked_lines("n = 0\nwhile here() and n < 2:\n    n = int(\n        n + 1)") == [2, 2, 2]


def test_defaults_and_decorators_run_under_the_mark_of_their_function():
    assert marked_lines("x = str(1)\ndef f(a=here()): pass\n@here\nclass A: pass") == [2, 3]


def test_no_mark_is_left_behind_in_builtins_that_could_fail_at_exit():
    names = [getattr(hooks, name) for name in ("MARK", "BACK", "AT", "OUT", "LEAF", "CAUGHT")]
    before = {name: vars(builtins)[name] for name in names}
    try:
        hooks.retire()
        namespace = {}
        exec(
            compile_marked("def f(x):\n    for y in [x]:\n        return [\n            y + 1]\nz = f(1)", "<f>"),
            namespace,
        )
        assert namespace["z"] == [2]
        assert all(not vars(builtins)[name].__code__.co_names for name in before)
    finally:
        for namespace in hooks.namespaces():
            namespace.update(before)


def test_positions_inside_an_expression_stay_exact():
    source = "def f(a, b):\n    return a.real + b.imag.no_such\n"
    plain, marked = (c.co_consts[0] for c in (compile(source, "<p>", "exec"), compile_marked(source, "<p>")))
    if hasattr(plain, "co_positions"):
        assert set(plain.co_positions()) - set(marked.co_positions()) <= {(None,) * 4}


def test_a_tree_without_marks_is_not_changed_in_meaning():
    # The marks are calls of built-in names: nothing else may be new.
    tree = ast.parse(textwrap.dedent(SNIPPETS["scopes"]))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    code = compile_marked(textwrap.dedent(SNIPPETS["scopes"]), "<s>")
    used = {name for c in codes(code) for name in c.co_names}
    new = {name for name in used - names if name.startswith("__outplace")}
    assert new <= {hooks.MARK, hooks.BACK, hooks.AT, hooks.OUT, hooks.LEAF, hooks.ITEM, hooks.CAUGHT, hooks.KEEP}
