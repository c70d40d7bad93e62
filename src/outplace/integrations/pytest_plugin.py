"""The pytest plugin: `pytest --outplace`, `@pytest.mark.outplace`, and the fixture `outplace_guard`.

pytest loads this module in every run, so it imports the rest of outplace only when it is used.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from outplace.integrations.watching import Watch
    from outplace.model import Diagnosis

_WATCHED = pytest.StashKey["Watch"]()
"""The diagnoses of a test, with its setup and teardown."""
_GUARDED = pytest.StashKey["Watch"]()
_LOOK = "outplace_look"
_SILENT = "outplace_silent"
"""The attribute of a report: the silent bugs of a test that passed, as text."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called by pytest."""
    group = parser.getgroup("outplace", "in-place errors of PyTorch")
    group.addoption(
        "--outplace", action="store_true", help="Name the lines behind in-place errors, below the failures they cause."
    )
    group.addoption(
        "--outplace-guard",
        action="store_true",
        help="As --outplace, and fail every test whose gradients are silently wrong.",
    )
    parser.addini("outplace", "Always run with --outplace.", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest."""
    config.addinivalue_line("markers", "outplace: name the lines behind in-place errors of this test (see --outplace).")


def _is_enabled(config: pytest.Config) -> bool:
    option_sets = (config.option, config.known_args_namespace)  # conftests are loaded before the options are final
    requested = any(getattr(options, name, False) for options in option_sets for name in ("outplace", "outplace_guard"))
    return requested or bool(config.getini("outplace"))


# -- recording ------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Starts recording before any user module is imported."""
    if not _is_enabled(early_config):
        return
    from outplace.report import reporter
    from outplace.runtime.program import lifecycle

    lifecycle.attach("marks", reporter)
    early_config.add_cleanup(lifecycle.detach)
    early_config.add_cleanup(_add_marks(early_config))


def _add_marks(config: pytest.Config) -> Callable[[], None]:
    """Lets pytest load test modules as always, with rewritten assertions, and with marks. Returns what undoes this.

    Assertions are rewritten first, so that their messages show the user's code. pytest asks for the code of a module in
    its cache, and gets the code with marks. The cache itself is not changed, because runs without marks use it, too.
    """
    from _pytest.assertion import rewrite

    from outplace.files.quiet import quietly
    from outplace.runtime.record.user_files import own_files

    cached: Any = rewrite._read_pyc

    def read(source: Path, *args: Any, **kwargs: Any) -> Any:
        code = cached(source, *args, **kwargs)
        if own_files[str(source)]:
            with contextlib.suppress(Exception), quietly() if code else contextlib.nullcontext():
                return _compile(str(source), config)
        return code  # if there is none, pytest compiles the module, and reports what is wrong with it

    def undo() -> None:
        rewrite._read_pyc = cached

    rewrite._read_pyc = read
    return undo


def _compile(path: str, config: pytest.Config) -> CodeType:
    from _pytest.assertion.rewrite import rewrite_asserts

    from outplace.runtime import instrument

    source = Path(path).read_bytes()
    tree = ast.parse(source, path)
    rewrite_asserts(tree, source, path, config)
    instrument.add_marks(tree, path)
    return compile(tree, path, "exec", dont_inherit=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watches the test with its fixtures, if outplace is enabled."""
    if not _is_enabled(item.config) and item.get_closest_marker("outplace") is None:
        return (yield)
    from outplace.integrations.watching import watch

    with watch(guard=item.config.getoption("outplace_guard")) as item.stash[_WATCHED]:
        return (yield)


# -- silent bugs ----------------------------------------------------------------------------------------------------


@pytest.fixture
def outplace_guard(request: pytest.FixtureRequest) -> Iterator[Watch]:
    """Fails the test if its gradients are silently wrong. `outplace_guard.diagnoses` has the diagnoses so far."""
    from outplace.integrations.watching import watch

    with watch(guard=True) as watched:
        request.node.stash[_GUARDED] = watched
        yield watched


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fails a test that passed with silently wrong gradients."""
    result = yield
    watched = item.stash.get(_GUARDED, None)
    if watched is None and item.config.getoption("outplace_guard"):
        watched = item.stash.get(_WATCHED, None)
    silent = _silent(watched)
    if silent:
        text = _as_text(silent, _look(item.config))
        pytest.fail(f"outplace: no error was raised, but the gradient is wrong:\n\n{text}", False)
    return result


def _silent(watched: Watch | None) -> list[Diagnosis]:
    from outplace.model import is_silent

    return [diagnosis for diagnosis in watched.diagnoses if is_silent(diagnosis)] if watched else []


# -- reporting ------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the diagnoses of an error as a section, instead of a note inside the traceback."""
    watched = item.stash.get(_WATCHED, item.stash.get(_GUARDED, None))
    if watched is None:
        return (yield)
    from outplace.runtime.errors import dispatch

    diagnoses = dispatch.take_diagnoses(call.excinfo.value) if call.excinfo is not None else []
    report = yield
    if diagnoses:
        report.sections.append(("outplace", _as_text(diagnoses, _look(item.config))))
    elif report.when == "call" and report.passed and _silent(watched):
        setattr(report, _SILENT, _as_text(_silent(watched), _look(item.config)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Lists tests that passed with silently wrong gradients."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports if hasattr(report, _SILENT)]
    if reports:
        terminalreporter.section("outplace: passed, but the gradient is silently wrong", yellow=True)
    for report in reports:
        terminalreporter.write_line(f"{report.nodeid}\n", bold=True)
        terminalreporter.write_line(f"{getattr(report, _SILENT)}\n")


class _Look(NamedTuple):
    """The terminal that will show the report."""

    width: int
    color: bool


def _look(config: pytest.Config) -> _Look:
    sent = getattr(config, "workerinput", {}).get(_LOOK)
    if sent is not None:
        return _Look(*sent)
    writer = config.get_terminal_writer() if config.pluginmanager.has_plugin("terminalreporter") else None
    return _Look(writer.fullwidth, writer.hasmarkup) if writer else _Look(100, False)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Sends the terminal's width and colour to a worker of pytest-xdist, which has no terminal."""
    node.workerinput[_LOOK] = tuple(_look(node.config))


def _as_text(diagnoses: Sequence[Diagnosis], look: _Look) -> str:
    import io

    from rich.console import Console

    from outplace.report.terminal import as_text, render

    if not look.color:
        return as_text(diagnoses, look.width)
    page = io.StringIO()
    with contextlib.closing(page):
        console = Console(file=page, force_terminal=True, color_system="standard", width=look.width, highlight=False)
        render(diagnoses, console)
        return page.getvalue().rstrip("\n")
