"""What does recording cost? Each model's training step: plain, under outplace, and under PyTorch's anomaly mode.

All configurations of a model run in one process and take turns. Each has a trainer of its own, from the same seed; a
turn is one untimed step after the hooks were put in place, and then a few timed ones. The order rotates from round to
round, and the trainers are built anew several times, so that no configuration is favoured by its place in time or in
memory. `plain` is measured twice: the ratio of the one to the other is the noise of the measurement.

On the CPU the time is that of the thread (one thread, so a busy machine does not count); on CUDA it is wall time, the
device waited for before and after each step.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from outplace.runtime import attach, instrument
from outplace.runtime.usercode import own_files

MODELS = Path(__file__).resolve().parent / "models"
NAMES = ("mlp", "transformer", "resnet", "lstm_loop")
GOALS = {"mlp": 1.05, "transformer": 1.03, "resnet": 1.03, "lstm_loop": 1.03}
BLOCK = 3
"""Timed steps in one turn of a configuration."""


# -- configurations ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    yield


@contextlib.contextmanager
def _recording(way: Literal["marks", "tags"]) -> Iterator[None]:
    attach.attach(way)
    try:
        yield
    finally:
        attach.detach()


@contextlib.contextmanager
def _anomaly(check_nan: bool) -> Iterator[None]:
    torch.autograd.set_detect_anomaly(True, check_nan)
    try:
        yield
    finally:
        torch.autograd.set_detect_anomaly(False)


class Configuration(NamedTuple):
    """One way to run a step: whether its source carries marks, and what is switched on around it."""

    name: str
    marked: bool
    around: Callable[[], contextlib.AbstractContextManager[None]]


CONFIGURATIONS = (
    Configuration("plain", False, _plain),
    Configuration("plain again", False, _plain),
    Configuration("outplace", True, lambda: _recording("marks")),
    Configuration("outplace, tags", False, lambda: _recording("tags")),
    Configuration("anomaly, no NaN check", False, lambda: _anomaly(False)),
    Configuration("anomaly", False, lambda: _anomaly(True)),
)


def load(name: str, marked: bool) -> ModuleType:
    """The model's module, compiled as Python does or as `outplace run` does."""
    path = MODELS / f"{name}.py"
    module = ModuleType(f"{name}_marked" if marked else name)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    source = path.read_bytes()
    code = instrument.compile_marked(source, str(path)) if marked else compile(source, str(path), "exec")
    exec(code, module.__dict__)
    return module


# -- measuring --------------------------------------------------------------------------------------------------------


def _timer(device: str) -> Callable[[Callable[[], object]], float]:
    def on_cpu(step: Callable[[], object]) -> float:
        begin = time.thread_time()
        step()
        return time.thread_time() - begin

    def on_cuda(step: Callable[[], object]) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    return on_cuda if device == "cuda" else on_cpu


Times = dict[str, list[list[float]]]
"""Seconds of each timed step, by configuration and turn."""


def measure(name: str, device: str, rounds: int, rebuilds: int, advance: Callable[[], None]) -> Times:
    """Runs all configurations of one model, turn by turn."""
    instrument.publish()
    own_files.claim(str(MODELS))
    modules = {marked: load(name, marked) for marked in (False, True)}
    timed = _timer(device)
    times: Times = {configuration.name: [] for configuration in CONFIGURATIONS}
    trainers: dict[str, Any] = {}
    for number in range(rounds):
        order = [CONFIGURATIONS[(number + i) % len(CONFIGURATIONS)] for i in range(len(CONFIGURATIONS))]
        if number % 2:
            order.reverse()
        if number % max(1, rounds // rebuilds) == 0:
            trainers.clear()
            for configuration in order:
                trainers[configuration.name] = modules[configuration.marked].build(device)
            for configuration in order:
                with configuration.around():
                    for _ in range(3):
                        trainers[configuration.name]()
        for configuration in order:
            step = trainers[configuration.name]
            with configuration.around():
                step()
                times[configuration.name].append([timed(step) for _ in range(BLOCK)])
        advance()
    return times


class Figure(NamedTuple):
    """What one configuration costs: seconds a step with quartiles, and the ratio to plain with a 95% interval."""

    median: float
    quartiles: tuple[float, float]
    ratio: float
    interval: tuple[float, float]


def figures(times: Times) -> dict[str, Figure]:
    """The ratio is the median over rounds of a turn against the plain turn of the same round; resampled by rounds."""
    turns = {name: [statistics.median(turn) for turn in rounds] for name, rounds in times.items()}
    found = {}
    for name, rounds in times.items():
        steps = [seconds for turn in rounds for seconds in turn]
        low, middle, high = statistics.quantiles(steps, n=4)
        ratios = [mine / plain for mine, plain in zip(turns[name], turns["plain"], strict=True)]
        found[name] = Figure(middle, (low, high), statistics.median(ratios), _interval(ratios))
    return found


def _interval(ratios: list[float], resamples: int = 2000) -> tuple[float, float]:
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(resamples))
    return medians[int(0.025 * resamples)], medians[int(0.975 * resamples) - 1]


# -- showing ----------------------------------------------------------------------------------------------------------


def table(name: str, found: dict[str, Figure]) -> Table:
    """One model's figures."""
    shown = Table(title=f"{name}  (goal for outplace: {GOALS[name]:.2f})", title_justify="left", title_style="bold")
    shown.add_column("configuration")
    for heading in ("ms a step", "quartiles", "ratio to plain", "95% interval"):
        shown.add_column(heading, justify="right")
    for configuration, figure in found.items():
        low, high = (1e3 * quartile for quartile in figure.quartiles)
        style = None
        if configuration == "outplace":
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
    chip = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, 1 thread"
    clock = "wall time, synchronized" if device == "cuda" else "thread CPU time"
    return {"torch": torch.__version__, "python": platform.python_version(), "device": chip, "clock": clock}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120, help="timed steps of each configuration (default: 120)")
    parser.add_argument(
        "--models", nargs="+", choices=NAMES, default=list(NAMES), metavar="MODEL", help=", ".join(NAMES)
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it works, not what it costs")
    parser.add_argument("--json", metavar="FILE", help="also write the figures, and every measured step, to a file")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device")
    torch.set_num_threads(1)
    rounds = 4 if options.quick else max(4, -(-options.steps // BLOCK))
    console = Console(width=None if sys.stdout.isatty() else 100)
    where = machine(options.device)
    console.print(", ".join(f"{key} {value}" for key, value in where.items()))
    report: dict[str, Any] = {"machine": where, "block": BLOCK, "rounds": rounds, "models": {}}
    for name in options.models:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            advance = functools.partial(progress.advance, progress.add_task(name, total=rounds))
            times = measure(name, options.device, rounds, 1 if options.quick else 4, advance)
        found = figures(times)
        console.print()
        console.print(table(name, found))
        report["models"][name] = {
            configuration: {**figure._asdict(), "seconds": times[configuration]}
            for configuration, figure in found.items()
        }
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
