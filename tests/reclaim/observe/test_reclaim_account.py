"""The account of storages, against figures that are not ours: torch's profiler, which sees the allocator itself."""

from __future__ import annotations

import contextlib
import gc
import io
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from outplace.reclaim.observe.ledger import Ledger
from outplace.reclaim.observe.timeline import Account, Change
from outplace.reclaim.observe.workspace import OnCuda

MODELS = Path(__file__).parents[3] / "benchmarks" / "models" / "out_of_place"


def run(name: str, arguments: list[str]) -> None:
    with mock.patch.object(sys, "argv", [name, "--steps", "2", *arguments]), contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(MODELS / name), run_name="__main__")


def profiled_peak(name: str, arguments: list[str]) -> int:
    gc.collect()  # memory from before that is freed meanwhile would be taken off
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run(name, arguments)
    found = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(found, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mlp.py", ["--batch", "256"]),
        ("gpt.py", ["--words", "500", "--length", "16"]),
        ("resnet.py", ["--width", "8", "--side", "16"]),
        ("unet.py", ["--width", "4", "--side", "32"]),  # a tenth of its peak is oneDNN's, inside a convolution
    ],
)
def test_the_peak_is_the_allocators(name, arguments):
    torch.set_num_threads(1)
    ledger = Ledger()
    with ledger:
        run(name, arguments)
    ours = Account(ledger.finish(ended=True)).curve().peak
    assert ours == pytest.approx(profiled_peak(name, arguments), rel=0.002)


def test_the_peak_of_blocks_that_are_computed_twice_is_the_allocators(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    text = (MODELS / "resnet.py").read_text()
    assert text.count("x = layer(x)") == 1
    changed = text.replace("x = layer(x)", "x = outplace.recompute(layer, x)").replace(
        "import torch", "import outplace, torch", 1
    )
    (tmp_path / "resnet.py").write_text(changed)
    monkeypatch.setattr(sys.modules[__name__], "MODELS", tmp_path)
    ledger = Ledger()
    arguments = ["--width", "8", "--side", "16", "--activation", "relu"]
    with ledger:
        run("resnet.py", arguments)
    ours = Account(ledger.finish(ended=True)).curve().peak
    states = 2 * torch.get_rng_state().nbytes  # of the random numbers: no operation makes them
    assert ours + states == pytest.approx(profiled_peak("resnet.py", arguments), rel=0.002)


def test_what_an_operation_takes_for_itself_is_counted():
    matrix = torch.eye(64)

    def work():
        torch.linalg.inv(matrix).neg()

    taken = {operation.name: operation.workspace for operation in recorded(work).operations}
    assert max(taken.values()) >= matrix.nbytes  # a decomposition of the matrix, whatever library makes it
    assert taken["neg"] == 0


def test_cudas_figures_are_read_around_an_operation(monkeypatch):
    """It took 300 bytes at the most, 60 of which stay: by figures that are made up, for machines without CUDA."""
    allocated = iter([100, 160])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: next(allocated))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 400)
    with OnCuda() as workspace:
        pass
    assert (workspace.taken, workspace.stays) == (240, 60)


def test_a_profiler_of_the_programs_own_is_left_alone():
    def work():
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            torch.ones(1000).neg()
        assert "aten::neg" in {event.name for event in profiler.events()}

    assert [operation.workspace for operation in recorded(work).operations] == [0, 0]


def recorded(work):
    ledger = Ledger()
    with ledger:
        work()
    return ledger.finish(ended=True)


def test_the_ledger_keeps_nothing_alive():
    def work():
        for _ in range(5):
            torch.ones(1000).neg().exp()

    recording = recorded(work)
    assert all(storage.died is not None for storage in recording.storages)
    assert Account(recording).curve().peak == 2 * 4000


def test_views_share_their_storage_and_a_resized_one_is_counted_anew():
    def work():
        x = torch.zeros(10, 10)
        x.view(100)[:50].t()
        x.resize_(20, 10)
        x.add_(1)

    recording = recorded(work)
    assert sorted(storage.nbytes for storage in recording.storages) == [400, 800]


def test_a_merged_result_takes_the_place_of_its_input():
    def work():
        a = torch.ones(1000)
        b = a.neg()
        del a
        return b.exp()

    recording = recorded(work)
    account = Account(recording)
    assert account.curve().peak == 8000
    assert account.curve([Change(merged={1: 0})]).peak == 8000  # the last operation still needs two
    assert account.curve([Change(merged={1: 0}), Change(merged={2: 1})]).peak == 4000
    assert account.curve([Change(lives={0: (0, 0)})]).values[1] == 4000


def test_a_program_keeps_the_names_it_has_asked_for():
    """A frame has one dictionary of its names, and whoever asks for it is handed that very one."""
    kept = {}

    def work():
        size = 1000
        names = locals()
        big = torch.ones(size).neg()
        kept.update(names)
        return big

    recorded(work)
    assert kept["size"] == 1000
