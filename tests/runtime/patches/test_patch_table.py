"""The patch table: rows are put in place in order and undone in reverse; what was never undone before is undone."""

from __future__ import annotations

import ast
import builtins
import sys
import threading
import traceback
import types
from pathlib import Path

import pytest

from side_by_side import forked

torch = pytest.importorskip("torch")

import outplace  # noqa: E402
from outplace.report import reporter  # noqa: E402
from outplace.runtime import instrument  # noqa: E402
from outplace.runtime.patches import optimizer_steps, tensor_writes  # noqa: E402
from outplace.runtime.patches.code_injection import injected, rewritten  # noqa: E402
from outplace.runtime.patches.table import (  # noqa: E402
    Patch,
    Section,
    Table,
    after_import,
    listed,
    replaced,
)
from outplace.runtime.program import launch, lifecycle  # noqa: E402
from outplace.runtime.record import log  # noqa: E402
from outplace.runtime.silent import scan  # noqa: E402

PROGRAMS = Path(__file__).parents[1] / "programs"


@pytest.fixture(autouse=True)
def nothing_is_left_attached():
    assert not lifecycle.attached()
    yield
    assert not lifecycle.attached()


# -- the table itself ---------------------------------------------------------------------------------------------


def noting(name: str, happened: list[str]) -> Patch:
    def put():
        happened.append(f"+{name}")
        return lambda: happened.append(f"-{name}")

    return Patch(name, "hook registered", "It is a test.", put)


def test_rows_are_undone_in_reverse_over_all_sections():
    happened: list[str] = []
    inner = Section("inner", lambda: [noting("c", happened)])
    outer = Section("outer", lambda: [noting("a", happened), noting("b", happened)], inner=lambda: [inner])
    table = Table()
    table.open(outer, outer, inner)
    assert happened == ["+a", "+b", "+c"]
    table.close()
    table.close()
    assert happened == ["+a", "+b", "+c", "-c", "-b", "-a"]
    table.open(outer)
    table.close(inner)
    assert happened[6:] == ["+a", "+b", "+c", "-c"]
    assert table.is_open(outer) and not table.is_open(inner)


def test_a_section_waits_for_a_module(tmp_path, monkeypatch):
    (tmp_path / "awaited_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    happened: list[str] = []
    section = Section("late", lambda: [noting("late", happened)], after_import("awaited_module", "value"))
    finders = list(sys.meta_path)
    table = Table()
    table.open(section)
    table.close()
    assert sys.meta_path == finders
    table.open(section)
    assert happened == []
    import awaited_module

    assert happened == ["+late"] and sys.meta_path == finders
    assert type(awaited_module.__loader__).__name__ == "SourceFileLoader"
    table.close()
    table.open(section)
    assert happened == ["+late", "-late", "+late"]
    del sys.modules["awaited_module"]


def test_what_somebody_else_has_replaced_since_is_left_to_them():
    place = types.SimpleNamespace(value=1)
    table = Table()
    table.open(Section("one", lambda: [replaced(place, "value", lambda old: old + 1, "It is a test.")]))
    assert place.value == 2
    place.value = 10
    table.close()
    assert place.value == 10


def test_listing_changes_nothing():
    happened: list[str] = []
    waiting = Section("late", lambda: [noting("late", happened)], after_import("no_such_module"))
    assert [row.target for _, row in listed([waiting])] == ["sys.meta_path", "late"]
    assert happened == []


def add(left, right):
    """Adds."""
    return left + right


def test_code_that_is_injected_leaves_the_function_what_it_is():
    seen: list[object] = []
    code, table = add.__code__, Table()
    row = injected(add, "test_add", "left", seen.append, "It is a test.")
    table.open(Section("one", lambda: [row]))
    assert add(1, 2) == 3 and seen == [1]
    with pytest.raises(TypeError) as raised:
        add(1, "2")
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [(frame.name, frame.line) for frame in frames[1:]] == [("add", "return left + right")]
    table.close()
    assert add.__code__ is code and not hasattr(builtins, "__outplace_test_add__")


def loop(wait, go_on):
    for _ in range(2):
        wait()
    return go_on


def test_a_call_that_runs_while_its_code_is_put_back_comes_to_its_end():
    def call_last(definition):
        definition.body.insert(-1, ast.parse("__outplace_test_last__()").body[0])

    started, go = threading.Event(), threading.Event()

    def wait():
        started.set()
        go.wait(10)

    seen: list[int] = []
    table = Table()
    hooks = {"__outplace_test_last__": lambda: seen.append(1)}
    table.open(Section("one", lambda: [rewritten(loop, call_last, hooks, "It is a test.")]))
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(loop(wait, "done")))
    thread.start()
    started.wait(10)
    table.close()
    go.set()
    thread.join()
    assert results == ["done"] and seen == []
    table.open(Section("again", lambda: [rewritten(loop, call_last, hooks, "It is a test.")]))
    assert loop(bool, "again") == "again" and seen == [1]
    table.close()
    assert not hasattr(builtins, "__outplace_test_last__")


# -- what was never undone ----------------------------------------------------------------------------------------


def test_callback_slots_are_empty_again():
    slots = [(tensor_writes, "on_hidden"), (optimizer_steps, "on_fused_step"), (scan, "goes_on")]
    before = [getattr(*slot) for slot in slots]
    with outplace.watch():
        assert not any(getattr(*slot) is old for slot, old in zip(slots, before, strict=True))
    assert [getattr(*slot) for slot in slots] == before
    assert not scan.also


def test_the_stack_is_walked_as_before():
    walk = traceback.walk_stack
    lifecycle.attach("marks", reporter)
    lifecycle.put(launch.RUNNING)
    assert traceback.walk_stack is not walk
    lifecycle.detach()
    assert traceback.walk_stack is walk


def test_code_with_marks_runs_on_after_detaching():
    source = "def double(x):\n    y = x * 2\n    rows = [y]\n    rows[0] += 1\n    return y\n"
    lifecycle.attach("marks", reporter)
    space: dict[str, object] = {}
    exec(instrument.compile_marked(source, "/programs/doubling.py"), space)
    lifecycle.detach()
    noted = len(log.current().starts), len(log.current().writes)
    x = torch.ones(2, requires_grad=True)
    assert space["double"](x).tolist() == [3, 3]
    assert (len(log.current().starts), len(log.current().writes)) == noted


def test_a_step_that_runs_while_watching_ends_is_forgotten():
    class Own(torch.optim.SGD):
        pass

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = Own([weight], lr=0.1)
    watched = outplace.watch()
    watched.__enter__()
    optimizer.register_step_pre_hook(lambda *_: watched.__exit__(None, None, None))
    weight.sum().backward()
    optimizer.step()
    assert (log.state.steps, log.state.stepping) == (0, 0)


def test_watching_may_end_inside_a_backward():
    watched = outplace.watch()
    watched.__enter__()
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda gradient: watched.__exit__(None, None, None))
    y.sum().backward()
    assert x.grad is not None
    with outplace.watch():
        x.exp().sum().backward()
    assert not [name for name in vars(builtins) if name in ("__outplace_backward__", "__outplace_finished__")]


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
@pytest.mark.parametrize("when", ["before", "inside"])
def test_collectives_are_seen_whenever_the_process_group_began(tmp_path, when):
    ending = forked(tmp_path, str(PROGRAMS / "process_group_first.py"), when)
    assert ending.code == 0, ending.stderr
    line = "True all_gather dist.all_gather([y.detach()], torch.full((4,), 7.0))"
    told = [line for line in ending.stdout.decode().splitlines() if not line.startswith("[")]
    assert told == [line, line]
