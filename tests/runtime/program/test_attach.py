"""The library: `with outplace.watch()`, `@outplace.watch`, `outplace.install()`."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
import threading
import traceback

import pytest

from side_by_side import plain, write

torch = pytest.importorskip("torch")

import outplace  # noqa: E402
from outplace.runtime.errors import dispatch  # noqa: E402
from outplace.runtime.program import lifecycle  # noqa: E402
from outplace.runtime.record import user_files  # noqa: E402


def step(extra=0):
    w = torch.ones(3, requires_grad=True)
    h = (w * 2).exp()
    h += 1 + extra
    h.sum().backward()


LINE = inspect.getsourcelines(step)[1]


@pytest.fixture(autouse=True)
def nothing_is_left_attached(monkeypatch):
    user_files.own_files.claim(__file__)
    assert not lifecycle.attached()
    yield
    assert not lifecycle.attached()
    assert not torch.is_anomaly_enabled()
    dispatch.reset()


def facts(error):
    (diagnosis,) = error.outplace_diagnoses
    lines = [mutation.site.line - LINE for mutation in diagnosis.mutations]
    return diagnosis.kind, diagnosis.tensor.name, diagnosis.saved_by.site.line - LINE, lines


def test_a_block():
    with pytest.raises(RuntimeError) as caught, outplace.watch() as watched:
        assert lifecycle.attached()
        step()
    error = caught.value
    assert facts(error) == ("saved", "h", 2, [3])
    assert watched.diagnoses == list(error.outplace_diagnoses)
    assert type(error) is RuntimeError and str(error).startswith("one of the variables needed")
    text = "".join(traceback.format_exception(error))
    assert text.count("OUT201 saved: h (float32[3])") == (sys.version_info >= (3, 11))  # Python 3.10 has no notes
    assert not [frame for frame in traceback.extract_tb(error.__traceback__) if "/outplace/runtime/" in frame.filename]


def test_the_message_is_pytorchs_own():
    with pytest.raises(RuntimeError) as plain:
        step()
    with pytest.raises(RuntimeError) as watched, outplace.watch():
        step()
    assert str(watched.value) == str(plain.value)


def test_a_block_that_is_left_in_peace():
    with outplace.watch() as watched:
        w = torch.ones(3, requires_grad=True)
        (w * 2).exp().sum().backward()
    assert watched.diagnoses == []
    with pytest.raises(KeyError), outplace.watch():
        {}["a"]


def test_an_error_caught_inside_the_block_is_known():
    with outplace.watch() as watched:
        for _ in range(3):
            with pytest.raises(RuntimeError):
                step()
    assert len(watched.diagnoses) == 1
    with outplace.watch() as again, pytest.raises(RuntimeError):
        step()
    assert again.diagnoses == watched.diagnoses


@outplace.watch
def watched_step(extra=0):
    "Its documentation."
    step(extra)


class Trainer:
    @outplace.watch
    def train(self, extra):
        step(extra)
        return self

    @outplace.watch()
    def with_brackets(self):
        return self

    @staticmethod
    @outplace.watch
    def static(value):
        return value

    @classmethod
    @outplace.watch
    def of(cls):
        return cls


def test_a_function():
    with pytest.raises(RuntimeError) as caught:
        watched_step(extra=1)
    assert facts(caught.value) == ("saved", "h", 2, [3])
    assert watched_step.__doc__ == "Its documentation."
    assert watched_step.__name__ == "watched_step"
    assert str(inspect.signature(watched_step)) == "(extra=0)"
    assert inspect.isfunction(watched_step)
    assert pickle.loads(pickle.dumps(watched_step)) is watched_step


def test_methods():
    trainer = Trainer()
    with pytest.raises(RuntimeError) as caught:
        trainer.train(1)
    assert facts(caught.value) == ("saved", "h", 2, [3])
    assert trainer.with_brackets() is trainer
    assert trainer.static(3) == 3
    assert Trainer.of() is Trainer


def test_generators_and_coroutines():
    @outplace.watch
    def produce():
        got = yield 1
        assert lifecycle.attached()
        yield got
        return "end"

    @outplace.watch
    async def compute():
        await asyncio.sleep(0)
        step()

    assert inspect.isgeneratorfunction(produce) and inspect.iscoroutinefunction(compute)
    generator = produce()
    assert (next(generator), generator.send(5)) == (1, 5)
    with pytest.raises(StopIteration, match="end"):
        next(generator)
    with pytest.raises(RuntimeError) as caught:
        asyncio.run(compute())
    assert facts(caught.value) == ("saved", "h", 2, [3])


def test_nested_and_recursive():
    @outplace.watch
    def recurse(depth):
        assert lifecycle.attached()
        if depth:
            recurse(depth - 1)
        assert lifecycle.attached()

    recurse(3)
    assert not lifecycle.attached()
    with outplace.watch(), pytest.raises(RuntimeError) as caught:
        with outplace.watch():
            pass
        assert lifecycle.attached()
        step()
    assert facts(caught.value) == ("saved", "h", 2, [3])


def test_threads_that_watch_at_the_same_time():
    errors, start = [], threading.Barrier(4)

    def work():
        start.wait()
        for _ in range(5):
            try:
                with outplace.watch():
                    step()
            except RuntimeError as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {facts(error)[:2] for error in errors} == {("saved", "h")}
    assert len(errors) == 20


def test_anomaly_mode_that_was_on_stays_on():
    torch.autograd.set_detect_anomaly(True)
    try:
        with pytest.warns(UserWarning, match="Error detected in"), pytest.raises(RuntimeError) as plain:
            step()
        with (
            pytest.warns(UserWarning, match="Error detected in"),
            pytest.raises(RuntimeError) as caught,
            outplace.watch(),
        ):
            step()
        assert str(caught.value) == str(plain.value)
        assert torch.is_anomaly_enabled()
    finally:
        torch.autograd.set_detect_anomaly(False)


def test_what_watch_takes():
    with pytest.raises(TypeError, match=r"outplace\.watch takes a function, or nothing; not 'int'"):
        outplace.watch(3)


def test_install_lasts_for_the_rest_of_the_program(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import outplace
        outplace.install(); outplace.install()
        import sys, threading
        assert 'torch' not in sys.modules
        import torch
        from outplace.runtime.program import lifecycle
        with outplace.watch(): pass
        assert lifecycle.attached()
        def step():
            w = torch.ones(3, requires_grad=True)
            h = (w * 2).exp()
            h += 1
            h.sum().backward()
        thread = threading.Thread(target=step); thread.start(); thread.join()
        print('main', flush=True)
        step()
        """,
    )
    ending = plain(tmp_path, "prog.py")
    assert (ending.code, ending.stdout) == (1, b"main\n")
    assert ending.stderr.count("OUT201 saved: h (float32[3])") == 2
    assert ending.stderr.count("prog.py:11 in step") == 2
    assert "/outplace/runtime/" not in ending.stderr


def test_the_public_names():
    updates = {"at", "blend", "functional", "to_mask"}
    assert set(outplace.__all__) == {"WrongGradientError", "__version__", "install", "recompute", "watch", *updates}
    assert all(hasattr(outplace, name) for name in outplace.__all__)
    assert sys.modules["outplace"].watch is outplace.watch
