"""The pytest plugin: real runs of pytest in processes of their own, alone and with pytest-xdist."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("torch")

pytest_plugins = "pytester"

CONFTEST = """
    import pytest
    import torch

    @pytest.fixture
    def w():
        return torch.ones(3, requires_grad=True)
"""

HELPER = """
    def build(w):
        h = (w * 2).exp()
        return h
"""

TESTS = """
    '''Its documentation.'''
    from __future__ import annotations
    import pytest
    from helper import build

    def test_saved(w):
        h = build(w)
        h += 1
        h.sum().backward()

    def test_fine(w):
        build(w).sum().backward()
        assert w.grad is not None

    def test_assertion(w):
        numbers = [1, 2, 3]
        assert sum(
            numbers
        ) == len([7,
                  8])

    def test_in_an_assertion(w):
        h = w.sigmoid()
        assert h.mul_(
            2
        ).sum() > 0
        h.sum().backward()

    def test_chained(w):
        try:
            w[0] = 2
        except RuntimeError as error:
            raise ValueError("no") from error

    def test_expected(w):
        with pytest.raises(RuntimeError):
            w[0] = 2

    def test_silent(w):
        h = w.tanh()
        h.data.zero_()
        h.sum().backward()

    @pytest.mark.parametrize("n", [1, 2])
    def test_guarded(w, outplace_guard, n):
        h = w.tanh()
        h.detach().numpy()[:] = 0
        h.sum().backward()

    def test_guarded_and_fine(w, outplace_guard):
        build(w).sum().backward()
        assert outplace_guard.diagnoses == []

    @pytest.mark.outplace
    def test_marked(w):
        h = w.sigmoid()
        h.add_(1)
        h.sum().backward()
"""


def line_of(text, after=""):
    """The number of the first line with this text, after the first with the other."""
    lines = TESTS.strip().splitlines()
    start = next(number for number, line in enumerate(lines, 1) if after in line)
    return next(number for number, line in enumerate(lines, 1) if number >= start and text in line)


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest over those tests, in a process of its own."""
    for name in ("OUTPLACE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(helper=HELPER, test_training=TESTS)
    return lambda *options: pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)


def sections(result):
    """The failure section of each test."""
    text = result.stdout.str().partition("= FAILURES =")[2].partition("= short test summary")[0]
    parts = re.split(r"(?m)^_+ (test_\S+) _+$", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def diagnosis(section):
    return section.partition(" outplace -")[2]


FAILED = {"test_saved", "test_assertion", "test_in_an_assertion", "test_chained", "test_marked"}
GUARDED = {"test_guarded[1]", "test_guarded[2]"}


def check_diagnoses(found):
    saved = diagnosis(found["test_saved"])
    assert "OUT201 saved: h (float32[3]) was overwritten after exp kept it for backward" in saved
    assert "helper.py:2 in build" in saved and f"test_training.py:{line_of('h += 1')} in test_saved" in saved
    assert found["test_saved"].count("OUT201 saved:") == 1  # not in the traceback as well
    inside = diagnosis(found["test_in_an_assertion"])
    assert f"{line_of('assert h.mul_(')} │     assert h.mul_(\n" in inside and "overwritten here: mul_" in inside
    assert "OUT102 leaf-view: w" in diagnosis(found["test_chained"])
    assert f"test_training.py:{line_of('h = w.sigmoid', 'test_marked')} in test_marked" in diagnosis(
        found["test_marked"]
    )


def check_assertions(found):
    lines = "E       assert 6 == 2\nE        +  where 6 = sum([1, 2, 3])\nE        +  and   2 = len([7, 8])\n"
    assert lines in found["test_assertion"]
    assert f"test_training.py:{line_of('assert sum(')}: AssertionError" in found["test_assertion"]


def test_all_tests(run, pytester):
    result = run("--outplace", "--junitxml=report.xml")
    found = sections(result)
    assert found.keys() == FAILED | GUARDED
    check_diagnoses(found)
    check_assertions(found)
    silent = result.stdout.str().partition("outplace: passed, but the gradient is silently wrong")[2]
    assert "test_training.py::test_silent" in silent and "overwritten here: zero_, unseen by autograd" in silent
    result.assert_outcomes(failed=7, passed=4)
    assert len(ElementTree.parse(pytester.path / "report.xml").findall(".//failure")) == 7
    cached = list(pytester.path.glob("**/*.pyc"))
    assert not any(b"__outplace" in path.read_bytes() for path in cached)  # code with marks is kept out of all caches


def test_loading_looks_as_without_outplace(pytester, monkeypatch):
    """A traceback through imports has pytest's frames alone, and the compiler warns as often as without marks."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    pytester.makepyfile(
        helper="LETTER = 'a' is 'b'",
        test_warns="import helper\n\n\ndef test_letter():\n    assert ('a' is 'b') is helper.LETTER",
        test_one="import test_other",
        test_other="raise RuntimeError('as the module is loaded')",
    )
    runs = [pytester.runpytest_subprocess("--tb=short", *more) for more in ([], [], ["--outplace"])]
    first, again, recorded = (re.sub(r"in \d+\.\d+s", "", result.stdout.str()) for result in runs)
    assert "SyntaxWarning" in first and "SyntaxWarning" not in again
    assert recorded == again
    assert "RuntimeError: as the module is loaded" in again and "rewrite.py" in again


def test_only_what_is_marked_or_guarded(run):
    found = sections(run())
    assert found.keys() == FAILED | GUARDED
    check_assertions(found)
    assert f"test_training.py:{line_of('h = w.sigmoid', 'test_marked')} in test_marked" in diagnosis(
        found["test_marked"]
    )
    assert {name for name in found if diagnosis(found[name])} == {"test_marked"}
    for name in GUARDED:
        assert "outplace: no error was raised, but the gradient is wrong:" in found[name]
        assert "OUT302 silent-alias" in found[name] and f"{line_of('numpy()[:]')} │" in found[name]


def test_with_xdist(run):
    pytest.importorskip("xdist")
    result = run("-n", "2", "--outplace-guard", "--color=yes")
    result.assert_outcomes(failed=8, passed=3)
    assert "\x1b[" in result.stdout.str().partition("saved here")[0][-400:]  # the workers know the terminal's colours
    result.stdout.lines[:] = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in result.stdout.lines]
    found = sections(result)
    assert found.keys() == FAILED | GUARDED | {"test_silent"}
    check_diagnoses(found)
    check_assertions(found)


def test_a_run_that_does_not_ask_pays_nothing(pytester, monkeypatch):
    monkeypatch.delenv("OUTPLACE", raising=False)
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            ours = {name for name in sys.modules if name.startswith("outplace")}
            of_plugin = {"outplace.integrations", "outplace.integrations.pytest_plugin"}
            assert ours == {"outplace", "outplace.version", *of_plugin}
            assert not {"torch", "rich", "click"} & sys.modules.keys()
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_asking_does_not_import_torch(pytester, monkeypatch):
    monkeypatch.delenv("OUTPLACE", raising=False)
    pytester.makeini("[pytest]\noutplace = true")
    pytester.makepyfile(
        """
        import sys

        def test_recording():
            from outplace.runtime.program import lifecycle
            assert lifecycle.attached()
            assert "torch" not in sys.modules
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers").assert_outcomes(passed=1)
