"""Programs that try to grow: the analysis ends, and still finds what is wrong with them."""

import ast
import importlib
import importlib.util
import itertools
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from outplace.checking import noqa
from outplace.checking.file_check import check_text
from outplace.files import parsable
from outplace.source import project as projects
from outplace.source.candidates import Candidates
from outplace.source.project import Project

GROWTH = Path(__file__).parents[2] / "benchmarks" / "growth.py"
spec = importlib.util.spec_from_file_location("growth", GROWTH)
growth = importlib.util.module_from_spec(spec)
spec.loader.exec_module(growth)


@pytest.mark.parametrize("shape", growth.SHAPES)
def test_a_program_that_grows_is_checked_in_time(shape):
    start = time.thread_time()
    outcome = check_text("program.py", growth.SHAPES[shape](60), Project(), fixes=False)
    assert outcome.failure is None
    assert time.thread_time() - start < growth.SECONDS


@pytest.mark.parametrize("shape", ["a list that doubles", "a list in a list, twice", "stars of stars"])
def test_what_is_wrong_behind_it_is_found(shape):
    program = growth.SHAPES[shape](60)
    found = check_text("program.py", program, Project(), fixes=False).findings
    assert [finding.site.line for finding in found] == [program.splitlines().index("x += 1") + 1]


@pytest.mark.parametrize("does", ["writes", "trains"])
def test_callers_of_callers_are_looked_for_in_linear_time(does):
    """Each function calls the one before it; looking at all of them for each takes minutes."""
    start = time.thread_time()
    program = growth.SHAPES[f"functions that call one that {does}"](1500)
    outcome = check_text("program.py", program, Project(), fixes=False)
    assert time.thread_time() - start < growth.SECONDS
    assert [finding.site.line for finding in outcome.findings] == [program.splitlines().index("x += 1") + 1]
    assert not any(note.left_out for note in outcome.notes)


@pytest.mark.parametrize(
    "shape", [shape for shape in growth.SHAPES if "between backwards" in shape or "backwards over" in shape]
)
def test_many_backwards_over_one_graph_take_linear_time(shape):
    """Each backward goes through the whole graph that was kept so far. What each statement does is told."""

    def lines_run(size):
        count = itertools.count()
        before = sys.getprofile()
        sys.setprofile(lambda _frame, event, _argument: next(count) if event == "call" else None)
        try:
            outcome = check_text("program.py", growth.SHAPES[shape](size), Project(), fixes=False)
        finally:
            sys.setprofile(before)
        return next(count), outcome

    (smaller, _), (larger, outcome) = lines_run(200), lines_run(400)
    assert larger < 2.5 * smaller
    assert [note.cut for note in outcome.notes] == [True]
    lines = [number for number, line in enumerate(growth.SHAPES[shape](400).splitlines(), 1) if "retain_graph" in line]
    assert set(lines) <= {finding.site.line for finding in outcome.findings}


def test_what_takes_too_long_is_left_out_and_said(monkeypatch):
    """The error stands before the long part; what follows is not looked at."""
    monkeypatch.setattr(projects, "MOST_SECONDS", 20)
    clock = itertools.count().__next__  # a second a look
    monkeypatch.setattr(projects, "time", SimpleNamespace(thread_time=clock, monotonic=clock))
    first = "import torch\nx = torch.ones(3, requires_grad=True).exp()\nx += 1\nx.sum().backward()\n"
    program = first + "y = x.detach()\n" + "z = y[1:]; z.exp_(); y = y.exp()\n" * 2000
    outcome = check_text("program.py", program, Project(), fixes=False)
    assert [finding.site.line for finding in outcome.findings] == [3]
    assert ["too long" in note.message for note in outcome.notes] == [True]


def test_deep_copies_take_little_more_memory_than_they_may(monkeypatch):
    sizes, real = [], projects._memory
    monkeypatch.setattr(projects, "_memory", lambda: sizes.append(real()) or sizes[-1])
    monkeypatch.setattr(projects, "MOST_MEMORY", 32 << 20)
    program = growth.START + "import copy\nl = [t, x]\n" + "l = copy.deepcopy(l) + l\n" * 200 + growth.END
    outcome = check_text("program.py", program, Project(), fixes=False)
    assert real() - sizes[0] < 96 << 20
    assert any(note.left_out for note in outcome.notes)


def test_what_takes_too_much_memory_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(projects, "_SECONDS_OF_TRUST", 0.0)
    taken = itertools.chain([0, 0, 0], itertools.repeat(1 << 40))  # twice at the start, at the backward, and after that
    monkeypatch.setattr(projects, "_memory", lambda: next(taken))
    first = "import torch\nx = torch.ones(3, requires_grad=True).exp()\nx += 1\nx.sum().backward()\n"
    program = first + "y = x.detach()\n" + "z = y[1:]; z.exp_(); y = y.exp()\n" * 2000
    outcome = check_text("program.py", program, Project(), fixes=False)
    assert [finding.site.line for finding in outcome.findings] == [3]
    assert [note.left_out for note in outcome.notes] == [True]


def test_the_next_file_has_its_own_time(monkeypatch):
    project = Project()
    monkeypatch.setattr(projects, "MOST_SECONDS", 0.0)
    check_text("first.py", growth.SHAPES["plain statements"](400), project, fixes=False)
    assert project.ran_out
    monkeypatch.undo()
    program = growth.SHAPES["plain statements"](10)
    outcome = check_text("second.py", program, project, fixes=False)
    assert not project.ran_out and len(outcome.findings) == 1


NESTED = "import torch\nt = torch.ones(3, requires_grad=True)\nx = t.exp()\n{}x += 1\nx.sum().backward()\n"


@pytest.mark.parametrize(
    "lines",
    [
        "l = [t]\n" + "l = [l, l]\n" * 60 + "y = x + l\n",
        "l = [t]\n" + "y = (l := [l, l])\n" * 60 + "for a in l: z = x + a\n",
        "d = dict(a=t)\n" + "d['a'] = [d['a'], d['a']]\n" * 60 + "y = x * d['a']\n",
        "l = [t]\n"
        + "".join(f"l{i} = []; l{i}.append(l); l{i}.append(l); l = l{i}\n" for i in range(60))
        + "y = x + l\n",
        "l = [t]\n" + "l = l if input() else [l, l]\n" * 60 + "y = x + l\n",
        "l = [t] * 9\ny = [a" + "".join(f" for a{i} in l" for i in range(30)) + " for a in l]\n",
        "l = [t, t]\n" + "l[0:0] = l\n" * 60,
        "m = torch.nn.ReLU()\n" + "m = torch.nn.ModuleList([m, m])\n" * 60,
        "n = 3\n" + "n = n ** 2\n" * 20 + "y = x[n:]\n",
        "s = 'a'\n" + "s = f'{s}{s}'\n" * 60 + "y = dict(s=s)\n",
        "s = '%999999999999s' % 'a'\n" + "s = s + s\n" * 60,
    ],
)
def test_containers_of_containers(lines):
    """What is wrong behind them is found; nobody looks at each of 2 ** 60 items."""
    program = NESTED.format(lines)
    start = time.thread_time()
    outcome = check_text("program.py", program, Project(), fixes=False)
    assert time.thread_time() - start < 2
    assert (outcome.failure, outcome.notes) == (None, ())
    assert program.splitlines().index("x += 1") + 1 in [finding.site.line for finding in outcome.findings]


@pytest.mark.parametrize("shape", [shape for shape in growth.SHAPES if "backwards" in shape])
def test_backwards_over_the_same_graph(shape):
    """Each backward meets all writes before it; what each statement does is told once."""
    program = growth.SHAPES[shape](60)
    start = time.thread_time()
    outcome = check_text("program.py", program, Project(), fixes=False)
    assert time.thread_time() - start < 3
    assert (outcome.failure, outcome.notes) == (None, ())
    lines = [number for number, line in enumerate(program.splitlines(), 1) if "retain_graph" in line]
    assert set(lines) <= {finding.site.line for finding in outcome.findings}


def test_a_module_that_runs_itself_twice_at_each_level_ends(monkeypatch):
    monkeypatch.setattr(projects, "MOST_SECONDS", 0.5)
    lines = "m = torch.nn.ReLU()\n" + "m = torch.nn.Sequential(m, m)\n" * 60 + "y = m(x)\n"
    start = time.thread_time()
    outcome = check_text("program.py", NESTED.format(lines), Project(), fixes=False)
    assert time.thread_time() - start < 2
    assert outcome.failure is None


def test_what_a_nested_container_holds_is_still_known():
    """The legal size: ten lists of ten. A write to what they hold is found."""
    program = NESTED.format("l = [[t.exp() for _ in range(10)] for _ in range(10)]\n")
    program = program.replace("x += 1\nx.sum()", "y = l[3][4]\ny += 1\ny.sum()")
    found = check_text("program.py", program, Project(), fixes=False).findings
    assert [finding.site.line for finding in found] == [6]


def test_the_search_makes_programs_that_python_takes(monkeypatch):
    """Each seed stands for one program, so that what was found can be looked at again."""
    monkeypatch.syspath_prepend(str(GROWTH.parent))
    search = importlib.import_module("grow_search")
    programs = [search.program(seed) for seed in range(300)]
    for program in programs:
        compile(program, "program.py", "exec", flags=ast.PyCF_ONLY_AST)
    assert len(set(programs)) > 280
    assert programs[7] == search.program(7)


LONG = (
    "import torch\n\ndef f(x: torch.Tensor):\n    y = x.exp()\n    y += 1\n    z = y.sum()\n"
    + "    z = z + torch.sin(z)\n" * 1_000
    + "    return z\n\ndef g(x: torch.Tensor):\n    y = x.exp()\n    y += 1\n    return y\n"
)
"""A function that no budget reaches the end of, and one behind it."""


def test_a_function_that_is_cut_short_is_noted():
    """What stands before the cut is found, and so is what is wrong with the other functions."""
    outcome = check_text("program.py", LONG, Project(), fixes=False)
    assert [finding.site.line for finding in outcome.findings] == [
        5,
        LONG.splitlines().index("def g(x: torch.Tensor):") + 3,
    ]
    assert [(note.line, note.message.split()[0], note.cut, note.left_out) for note in outcome.notes] == [
        (3, "`f`", True, False)
    ]


@pytest.mark.parametrize("count", [1, 30])
def test_a_function_that_is_followed_to_its_end_is_not_noted(count):
    whole = LONG.replace("    z = z + torch.sin(z)\n" * 1_000, "    z = z + torch.sin(z)\n" * count)
    assert check_text("program.py", whole, Project(), fixes=False).notes == ()


STATEMENTS = [
    "x = 1\n",
    "@a\n@b(1)\ndef f(x, y):\n    return x\n\n",
    "if x:\n    y = 1\nelif z:\n    y = 2\nelse:\n    y = 3\n",
    "try:\n    x = (1,\n2)\nexcept ValueError:\n    pass\nfinally:\n    pass\n",
    's = """a\n)\nb = \'\'\'\n\\"""\nc"""\n',
    "s = f'{x} {y[0]}' \"'\" # ' a comment (\n",
    "x = y + \\\nz\n",
    "l = [\n1,\n# (\n2,\n]\n",
    "# a comment: it's\nr'\\''\n",
]


@pytest.mark.parametrize("seed", range(20))
def test_the_part_of_a_large_file_that_is_parsed_is_its_first_statements(seed, monkeypatch):
    draw = random.Random(seed)
    source = "".join(draw.choices(STATEMENTS, k=200))
    monkeypatch.setattr(parsable, "MOST_TOKENS", draw.randrange(200, 1000))
    part = parsable.first_part(source)
    assert source.startswith(part)
    known = [ast.dump(statement) for statement in ast.parse(part).body]
    whole = [ast.dump(statement) for statement in ast.parse(source).body]
    assert 10 < len(known) < len(whole)
    assert known == whole[: len(known)]


def test_a_large_file_is_checked_in_part(monkeypatch):
    first = "import torch\nx = torch.ones(3, requires_grad=True).exp()\nx += 1\nx.sum().backward()\n"
    program = first + "y = x.exp()\n" * 400
    whole = check_text("program.py", program, Project(), fixes=False)
    monkeypatch.setattr(parsable, "MOST_TOKENS", 1000)
    part = check_text("program.py", program, Project(), fixes=False)
    assert [finding.site.line for finding in part.findings] == [finding.site.line for finding in whole.findings] == [3]
    assert [note.left_out for note in whole.notes] == []
    assert [note.left_out for note in part.notes] == [True]


TEXTS = ["mutates_args ", "mutates_args def ", "x[0] = ", "] = ", "# noqa: ", "relu((", "f'{x}' "]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_looked_through_in_linear_time(text):
    source = "torch " + text * (300_000 // len(text))
    start = time.thread_time()
    candidates = Candidates(source)
    candidates.worth_checking()
    candidates.writes(1, 1)
    noqa.read(source, ())
    parsable.first_part(source)
    assert time.thread_time() - start < 3
