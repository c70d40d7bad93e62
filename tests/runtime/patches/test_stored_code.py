"""Code that a program stores by its value runs where no marks are."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import outplace
from outplace.runtime.instrument import twins
from side_by_side import environment, outplace_forked, plain, write

FUNCTIONS = """
import torch


def with_default(x, factor=2):
    inner = [item * factor for item in x]
    return sum(inner)


lambdas = (lambda x: x + 1, lambda x: x + 2)


class Layer:
    def forward(self, x):
        try:
            return x * 3
        finally:
            self.seen = [lambda: x]
"""
STORE = """
import {module}
import sys
from functions import *
with open("stored", "wb") as file:
    {module}.dump([{codes}], file)
"""
LOAD = """
import sys
import types
import {module}
assert "outplace" not in sys.modules
with open("stored", "rb") as file:
    functions = {module}.load(file)
functions = [f if callable(f) else types.FunctionType(f, dict(sum=sum), argdefs=(2,)) for f in functions]
for f, arguments in zip(functions, [([1, 2], 2), (1,), (1,), (types.SimpleNamespace(), 2)]):
    print(f(*arguments))
"""
RESULTS = {"with_default": "6", "lambdas[0]": "2", "lambdas[1]": "3", "Layer.forward": "6"}
if sys.version_info < (3, 11):  # no columns tell two functions on one line apart: both keep their marks
    FUNCTIONS = FUNCTIONS.replace(", lambda", ",\n    lambda")


@pytest.mark.parametrize("module", ["marshal", "cloudpickle", "dill"])
def test_another_process_loads_it_without_outplace(tmp_path, module):
    pytest.importorskip(module)
    codes = [f"{name}.__code__" if module == "marshal" else name for name in RESULTS]
    by_value = {"marshal": "", "cloudpickle": "cloudpickle.register_pickle_by_value(sys.modules['functions'])\n"}
    store = STORE.format(module=module, codes=", ".join(codes)).replace(
        "with open", by_value.get(module, "") + "with open"
    )
    if module == "dill":  # it stores what `__main__` defines by its value
        store = store.replace("from functions import *\n", FUNCTIONS)
    write(tmp_path, "functions.py", FUNCTIONS)
    write(tmp_path, "store.py", store)
    assert outplace_forked(tmp_path, "run", "store.py").code == 0
    alone = [sys.executable, "-c", LOAD.format(module=module)]
    done = subprocess.run(alone, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.stdout.split() == list(RESULTS.values()), done.stderr


WATCHED = """
import marshal
import types
import torch
import outplace
from outplace.runtime.instrument import twins


def added(x):
    return [item + 1 for item in x]


with outplace.watch():
    assert twins.is_marked(added.__code__)
    one, nested = marshal.dumps(added.__code__), marshal.dumps((1, [added.__code__]))
for code in (marshal.loads(one), marshal.loads(nested)[1][0]):
    assert code == added.__code__
    print(types.FunctionType(code, {})([1]))
"""


def test_what_is_stored_while_watching_is_loaded_after_it(tmp_path):
    write(tmp_path, "program.py", WATCHED)
    done = plain(tmp_path, "program.py")
    assert done.stdout.split() == [b"[2]", b"[2]"], done.stderr


def test_the_functions_that_store_are_as_before():
    modules = {"marshal": ("dump", "dumps"), "cloudpickle.cloudpickle": ("_code_reduce",), "dill._dill": ("save_code",)}
    found = [
        (importlib.import_module(module), name)
        for module, names in modules.items()
        if importlib.util.find_spec(module.split(".")[0])
        for name in names
    ]
    before = [(getattr(*one), getattr(getattr(*one), "__code__", None)) for one in found]
    with outplace.watch():
        pass
    assert [(getattr(*one), getattr(getattr(*one), "__code__", None)) for one in found] == before


def test_code_without_marks_stays_the_same_object():
    code = test_code_without_marks_stays_the_same_object.__code__
    value = (1, [code], "text")
    assert twins.without_marks(value) is value
