"""What does recording cost? Each model's training step: plain, under outplace, and under PyTorch's anomaly mode.

Each configuration of a model trains in a process of its own, forked from one that has only imported torch, so that all
have the same memory layout to begin with. The processes take turns: all but one wait, and a turn is a few untimed steps
and then a few timed ones, in an order that rotates. How fast a process is depends also on where its memory came to lie,
by several per cent, so they are forked anew many times: one such *generation* gives one ratio of medians, and the
figure is the mean of these with its interval. `plain` is measured twice: their ratio is the noise of the measurement.

Why not one process that switches the hooks on and off: Python specialises running code to the classes it meets, and a
change to `torch.Tensor` undoes that for hundreds of steps. In blocks of 400 steps after a switch the tiny model's ratio
fell from 1.10 in the first hundred to 1.03 in the last; a program that runs under outplace is switched once.

On the CPU the time is that of the thread (there is one, so a busy machine counts little); on CUDA it is wall time, the
device waited for before and after each step. The C library's allocator is told to keep what is freed: how much of it
goes back to the system, to be faulted in again page by page, changes from process to process (2,000 to 3,000 pages a
step of the ResNet, 5 to 9 ms of 75).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import json
import multiprocessing
import os
import platform
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

MODELS = Path(__file__).resolve().parent / "models"
GOALS = {"mlp": 1.05, "transformer": 1.03, "resnet": 1.03, "lstm_loop": 1.03, "gru_by_hand": 1.05}
CONFIGURATIONS = (
    "plain",
    "plain again",
    "outplace",
    "watch()",
    "install()",
    "OUTPLACE=1",
    "pytest --outplace",
    "notebook",
    "second thread, plain",
    "second thread",
    "DataLoader worker, plain",
    "DataLoader worker",
    "outplace, tags",
    "outplace, guard",
    "anomaly, no NaN check",
    "anomaly",
)
ATTACHED = (
    "outplace",
    "watch()",
    "install()",
    "OUTPLACE=1",
    "pytest --outplace",
    "notebook",
    "second thread",
    "DataLoader worker",
)
"""The ways to attach outplace, and the places to train in. All have the same goal."""

BASES = {place: f"{place}, plain" for place in ("second thread", "DataLoader worker")}
"""What a configuration is compared with, if it is not `plain`: memory is slower to come by in a second thread."""

WARM_UP, UNTIMED, TIMED = 30, 2, 4
"""Untimed steps of a new process, and the untimed and the timed steps of a turn."""

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_TOP_PAD_": str(1 << 26)}
"""glibc's settings for an allocator that keeps what is freed; read when a process starts."""

Times = dict[str, list[list[float]]]
"""Seconds of each timed step, by configuration and generation."""


# -- the process of one configuration -------------------------------------------------------------------------------


WITH_MARKS = ("outplace", "outplace, guard", "OUTPLACE=1", "pytest --outplace", "second thread", "DataLoader worker")
"""In these the model's file is loaded after outplace was attached, so it gets marks then."""


def load(name: str, configuration: str) -> ModuleType:
    """The model's module, compiled as it is in this configuration."""
    path = MODELS / f"{name}.py"
    if configuration == "notebook":
        return _as_cell(path)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    if configuration == "OUTPLACE=1":
        code = SourceFileLoader(name, str(path)).get_code(name)
    elif configuration == "pytest --outplace":
        code = _as_pytest_does(path)
    elif configuration in WITH_MARKS:
        from outplace.runtime import instrument

        code = instrument.compile_marked(path.read_bytes(), str(path))
    else:
        code = compile(path.read_bytes(), str(path), "exec")
    assert code is not None
    exec(code, module.__dict__)
    return module


def _as_cell(path: Path) -> ModuleType:
    """As the cell of a notebook that begins with `%load_ext outplace`."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "outplace")
    shell.run_cell(path.read_text("utf-8").partition("\nif __name__")[0]).raise_error()
    return shell.user_module


def _as_pytest_does(path: Path) -> CodeType:
    """With rewritten assertions, and then with marks."""
    from _pytest.assertion.rewrite import rewrite_asserts

    from outplace.runtime import instrument

    source = path.read_bytes()
    tree = ast.parse(source, str(path))
    rewrite_asserts(tree, source, str(path))
    instrument.add_marks(tree, str(path))
    return compile(tree, str(path), "exec", dont_inherit=True)


def attach_first(configuration: str) -> None:
    """Attaches outplace, where that comes before the program's files are loaded; sets anomaly mode."""
    import torch

    from outplace.integrations import child_process
    from outplace.report import reporter
    from outplace.runtime.program import lifecycle
    from outplace.runtime.record.user_files import own_files

    own_files.claim(str(MODELS))
    if configuration == "OUTPLACE=1":
        os.environ["OUTPLACE"] = "1"
        child_process.attach()
    elif configuration in WITH_MARKS:
        lifecycle.attach("marks", reporter, guard="guard" in configuration)
    elif configuration.startswith("anomaly"):
        torch.autograd.set_detect_anomaly(True, check_nan=configuration == "anomaly")


def work(name: str, configuration: str, device: str, orders: Connection) -> None:
    """Trains, a turn for each order; answers with the seconds of the timed steps."""
    import torch

    import outplace

    torch.set_num_threads(1)
    attach_first(configuration)
    step = load(name, configuration).build(device)
    suspended = (number for number in range(1)) if configuration == "outplace, tags" else None
    if configuration == "install()":
        outplace.install()
    turns = functools.partial(take_turns, step, device, orders)
    if configuration in ("watch()", "pytest --outplace") or suspended is not None:
        with outplace.watch():
            turns()
    elif configuration.startswith("second thread"):
        thread = threading.Thread(target=turns)
        thread.start()
        thread.join()
    elif configuration.startswith("DataLoader worker"):
        in_worker(turns)
    else:
        turns()


def in_worker(turns: Callable[[], None]) -> None:
    """Trains in a worker of a DataLoader."""
    from torch.utils.data import DataLoader, IterableDataset

    class Trained(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            turns()
            yield 0

    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # it has a child
    list(DataLoader(Trained(), num_workers=1, multiprocessing_context="fork"))


def take_turns(step: Callable[[], object], device: str, orders: Connection) -> None:
    """Trains as it is told to."""
    import torch

    def on_cpu() -> float:
        begin = time.thread_time()
        step()
        return time.thread_time() - begin

    def on_cuda() -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    timed = on_cuda if device == "cuda" else on_cpu
    while (turn := orders.recv()) is not None:
        untimed, count = turn
        for _ in range(untimed):
            timed()
        orders.send([timed() for _ in range(count)])


COMPILED = ("plain", "plain again", "outplace", "watch()")


def work_compiled(name: str, configuration: str, _: str, orders: Connection) -> None:
    """Compiles the model's own function and trains; answers with the seconds, and with what Dynamo has counted."""
    import torch._dynamo

    import outplace

    torch.set_num_threads(1)
    attach_first(configuration)
    trainer: Any = load(name, configuration).build("cpu")
    trainer.model = torch.compile(trainer.model, backend="aot_eager")

    def train() -> None:
        begin = time.thread_time()
        trainer()
        first = time.thread_time() - begin
        while orders.recv() is not None:
            begin = time.thread_time()
            trainer()
            orders.send(time.thread_time() - begin)
        counters = torch._dynamo.utils.counters
        orders.send((first, counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()),
                     len(torch._dynamo.utils.guard_failures)))  # fmt: skip

    with outplace.watch() if configuration == "watch()" else contextlib.nullcontext():
        train()


def compiled_table(name: str, steps: int) -> Table:
    """Recording in a program that compiles: the ratios of compiling and of a step, and what Dynamo has counted."""
    shown = Table(title=f"{name}, compiled", title_justify="left", title_style="bold")
    for heading in ("configuration", "first step", "later steps", "graphs", "graph breaks", "recompiled"):
        shown.add_column(heading, justify="left" if heading == "configuration" else "right")
    running = {configuration: Worker(name, configuration, "cpu", work_compiled) for configuration in COMPILED}
    seconds = {configuration: [running[configuration].ask(True) for _ in range(3)][3:] for configuration in COMPILED}
    for _ in range(steps):
        for configuration, worker in running.items():
            seconds[configuration].append(worker.ask(True))
    ends = {configuration: worker.ask(None) for configuration, worker in running.items()}
    for configuration, (first, *counted) in ends.items():
        later = statistics.median(seconds[configuration]) / statistics.median(seconds["plain"])
        style = None if counted == ends["plain"][1:] else "red"
        row = (configuration, f"{first / ends['plain'][0]:.3f}", f"{later:.3f}", *map(str, counted))
        shown.add_row(*row, style=style)
    return shown


# -- measuring ------------------------------------------------------------------------------------------------------


class Worker:
    """A process that trains when it is told to."""

    def __init__(self, name: str, configuration: str, device: str, work: Callable[..., None] = work) -> None:
        forking = multiprocessing.get_context("fork")
        self._orders, theirs = forking.Pipe()
        self._process = forking.Process(target=work, args=(name, configuration, device, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def turn(self, untimed: int, timed: int) -> list[float]:
        """Has it train; seconds of each timed step."""
        seconds: list[float] = self.ask((untimed, timed))
        return seconds

    def ask(self, order: Any) -> Any:
        """Its answer to an order."""
        self._orders.send(order)
        try:
            return self._orders.recv()
        except EOFError:
            self._process.join()
            raise SystemExit(f"a worker died with exit code {self._process.exitcode}") from None

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._orders.send(None)
        self._process.join()


@contextlib.contextmanager
def workers(name: str, configurations: Sequence[str], device: str) -> Iterator[dict[str, Worker]]:
    """A process for each configuration, all warm."""
    started = {configuration: Worker(name, configuration, device) for configuration in configurations}
    try:
        for worker in started.values():
            worker.turn(WARM_UP, 0)
        yield started
    finally:
        for worker in started.values():
            worker.close()


def measure(name: str, configurations: Sequence[str], device: str, plan: Plan, advance: Callable[[], None]) -> Times:
    """Runs the configurations of one model, turn by turn."""
    times: Times = {configuration: [] for configuration in configurations}
    for generation in range(plan.generations):
        shift = generation % len(configurations)
        order = [*configurations[shift:], *configurations[:shift]]
        with workers(name, order, device) as running:
            seconds: dict[str, list[float]] = {configuration: [] for configuration in configurations}
            for number in range(plan.rounds):
                order.append(order.pop(0))
                for configuration in order if number % 2 else reversed(order):
                    seconds[configuration] += running[configuration].turn(UNTIMED, TIMED)
        for configuration in configurations:
            times[configuration].append(seconds[configuration])
        advance()
    return times


class Plan(NamedTuple):
    """How much is measured: generations of processes, and the rounds of each."""

    generations: int
    rounds: int


class Figure(NamedTuple):
    """What one configuration costs: seconds a step with quartiles, and the ratio to plain with a 95% interval."""

    median: float
    quartiles: tuple[float, float]
    ratio: float
    interval: tuple[float, float]


def figures(times: Times) -> dict[str, Figure]:
    """What each configuration costs."""
    found = {}
    for name, generations in times.items():
        low, middle, high = statistics.quantiles([seconds for steps in generations for seconds in steps], n=4)
        plain = [statistics.median(steps) for steps in times[BASES.get(name, "plain")]]
        ratios = [statistics.median(steps) / base for steps, base in zip(generations, plain, strict=True)]
        found[name] = Figure(middle, (low, high), statistics.geometric_mean(ratios), _interval(ratios))
    return found


def _interval(ratios: list[float], resamples: int = 2000) -> tuple[float, float]:
    chance = random.Random(0)
    means = sorted(statistics.geometric_mean(chance.choices(ratios, k=len(ratios))) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


# -- showing --------------------------------------------------------------------------------------------------------


def table(name: str, found: dict[str, Figure]) -> Table:
    """One model's figures."""
    shown = Table(title=f"{name}  (goal for outplace: {GOALS[name]:.2f})", title_justify="left", title_style="bold")
    shown.add_column("configuration")
    for heading in ("ms a step", "quartiles", "ratio to plain", "95% interval"):
        shown.add_column(heading, justify="right")
    for configuration, figure in found.items():
        low, high = (1e3 * quartile for quartile in figure.quartiles)
        style = None
        if configuration in ATTACHED:
            style = "green" if figure.ratio <= GOALS[name] else "red"
        shown.add_row(
            configuration,
            f"{1e3 * figure.median:.3f}",
            f"{low:.3f} to {high:.3f}",
            f"{figure.ratio:.3f}",
            f"{figure.interval[0]:.3f} to {figure.interval[1]:.3f}",
            style=style,
        )
    return shown


def machine(device: str) -> dict[str, str]:
    """Where the figures come from."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device")
    chip = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, 1 thread"
    clock = "wall time, synchronized" if device == "cuda" else "thread CPU time"
    return {"torch": torch.__version__, "python": platform.python_version(), "device": chip, "clock": clock}


def in_child(function: Callable[[str], dict[str, str]], argument: str) -> dict[str, str]:
    """The function's answer, worked out in a process of its own."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, (argument,))


def main() -> None:
    """Measures and prints."""
    if not ALLOCATOR.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ALLOCATOR})
    import torch._dynamo  # noqa: F401  (once, for all that are forked: making an optimizer imports it)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=12, help="how often the processes are forked (default: 12)")
    parser.add_argument("--rounds", type=int, default=10, help=f"turns of {TIMED} timed steps in each (default: 10)")
    parser.add_argument("--models", nargs="+", choices=GOALS, default=[*GOALS], metavar="MODEL", help=", ".join(GOALS))
    parser.add_argument("--only", nargs="+", choices=CONFIGURATIONS, metavar="CONFIGURATION", help="beside plain")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it works, not what it costs")
    parser.add_argument("--json", metavar="FILE", help="also write the figures, and every measured step, to a file")
    options = parser.parse_args()
    where = in_child(machine, options.device)  # asking CUDA starts it, and what is forked after that cannot use it
    plan = Plan(2, 2) if options.quick else Plan(options.generations, options.rounds)
    wanted = {"plain", *(options.only or CONFIGURATIONS)}
    wanted |= {BASES[one] for one in wanted if one in BASES}
    configurations = [one for one in CONFIGURATIONS if one in wanted]
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(", ".join(f"{key} {value}" for key, value in where.items()))
    report: dict[str, Any] = {"machine": where, **plan._asdict(), "models": {}}
    for name in options.models:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            advance = functools.partial(progress.advance, progress.add_task(name, total=plan.generations))
            times = measure(name, configurations, options.device, plan, advance)
        found = figures(times)
        console.print()
        console.print(table(name, found))
        report["models"][name] = {
            configuration: {**figure._asdict(), "seconds": times[configuration]}
            for configuration, figure in found.items()
        }
    if options.device == "cpu" and not options.only:
        for name in [name for name in options.models if name in ("mlp", "transformer")]:
            console.print()
            console.print(compiled_table(name, 5 if options.quick else 100))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
