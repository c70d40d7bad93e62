"""What does recording cost? Each model's training step: plain, under outplace, and under PyTorch's anomaly mode.

Each configuration of a model trains in a process of its own, and the processes take turns: all but one wait, and a turn
is a few untimed steps and then a few timed ones. The order rotates from round to round, and the processes are started
anew halfway, so that no configuration is favoured by its place in time or in memory. `plain` is measured twice: the
ratio of the one to the other is the noise of the measurement.

Why not one process that switches the hooks on and off: Python specialises running code to the classes it meets, and a
change to `torch.Tensor` undoes that for hundreds of steps. In blocks of 400 steps after a switch the tiny model's ratio
fell from 1.10 in the first hundred to 1.03 in the last; a program that runs under outplace is switched once.

On the CPU the time is that of the thread (there is one, so a busy machine counts little); on CUDA it is wall time, the
device waited for before and after each step.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

MODELS = Path(__file__).resolve().parent / "models"
GOALS = {"mlp": 1.05, "transformer": 1.03, "resnet": 1.03, "lstm_loop": 1.03}
CONFIGURATIONS = ("plain", "plain again", "outplace", "outplace, tags", "anomaly, no NaN check", "anomaly")
WARM_UP, UNTIMED, TIMED = 60, 2, 3
"""Steps of a new process, and the untimed and the timed steps of a turn."""

Times = dict[str, list[list[float]]]
"""Seconds of each timed step, by configuration and turn."""


# -- the process of one configuration -------------------------------------------------------------------------------


def load(name: str, marked: bool) -> ModuleType:
    """The model's module, compiled as Python does or as `outplace run` does."""
    from outplace.runtime import instrument

    path = MODELS / f"{name}.py"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    source = path.read_bytes()
    code = instrument.compile_marked(source, str(path)) if marked else compile(source, str(path), "exec")
    exec(code, module.__dict__)
    return module


def switch_on(configuration: str) -> None:
    """Puts in place what the configuration is about, for the rest of the process."""
    import torch

    from outplace.runtime import attach
    from outplace.runtime.usercode import own_files

    own_files.claim(str(MODELS))
    if configuration.startswith("outplace"):
        attach.attach("tags" if "tags" in configuration else "marks")
    elif configuration.startswith("anomaly"):
        torch.autograd.set_detect_anomaly(True, check_nan=configuration == "anomaly")


def work(name: str, configuration: str, device: str) -> None:
    """Trains, a turn for each line of stdin; answers with the seconds of the timed steps."""
    import torch

    torch.set_num_threads(1)
    switch_on(configuration)
    step = load(name, marked=configuration == "outplace").build(device)

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
    for line in sys.stdin:
        untimed, count = (int(word) for word in line.split())
        for _ in range(untimed):
            timed()
        print(json.dumps([timed() for _ in range(count)]), flush=True)


# -- measuring ------------------------------------------------------------------------------------------------------


class Worker:
    """A process that trains when it is told to."""

    def __init__(self, name: str, configuration: str, device: str) -> None:
        command = [sys.executable, __file__, "--worker", name, configuration, "--device", device]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OUTPLACE")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def turn(self, untimed: int, timed: int) -> list[float]:
        """Has it train; seconds of each timed step."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{untimed} {timed}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"a worker died with exit code {self._process.wait()}")
        seconds: list[float] = json.loads(answer)
        return seconds

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


@contextlib.contextmanager
def workers(name: str, device: str) -> Iterator[dict[str, Worker]]:
    """A process for each configuration, all warm."""
    started = {configuration: Worker(name, configuration, device) for configuration in CONFIGURATIONS}
    try:
        for worker in started.values():
            worker.turn(WARM_UP, 0)
        yield started
    finally:
        for worker in started.values():
            worker.close()


def measure(name: str, device: str, rounds: int, generations: int, advance: Callable[[], None]) -> Times:
    """Runs all configurations of one model, turn by turn."""
    times: Times = {configuration: [] for configuration in CONFIGURATIONS}
    number = 0
    for generation in range(generations):
        with workers(name, device) as running:
            while number < rounds * (generation + 1) // generations:
                first = number % len(CONFIGURATIONS)
                order = CONFIGURATIONS[first:] + CONFIGURATIONS[:first]
                for configuration in order if number % 2 else reversed(order):
                    times[configuration].append(running[configuration].turn(UNTIMED, TIMED))
                number += 1
                advance()
    return times


class Figure(NamedTuple):
    """What one configuration costs: seconds a step with quartiles, and the ratio to plain with a 95% interval."""

    median: float
    quartiles: tuple[float, float]
    ratio: float
    interval: tuple[float, float]


def figures(times: Times) -> dict[str, Figure]:
    """The ratio is the median over rounds of a turn against the plain turns of the same round; resampled by rounds."""
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
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device")
    chip = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, 1 thread"
    clock = "wall time, synchronized" if device == "cuda" else "thread CPU time"
    return {"torch": torch.__version__, "python": platform.python_version(), "device": chip, "clock": clock}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120, help="timed steps of each configuration (default: 120)")
    parser.add_argument("--models", nargs="+", choices=GOALS, default=[*GOALS], metavar="MODEL", help=", ".join(GOALS))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it works, not what it costs")
    parser.add_argument("--json", metavar="FILE", help="also write the figures, and every measured step, to a file")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker, options.device)
        return
    where = machine(options.device)
    rounds, generations = (4, 1) if options.quick else (max(4, -(-options.steps // TIMED)), 2)
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(", ".join(f"{key} {value}" for key, value in where.items()))
    report: dict[str, Any] = {"machine": where, "rounds": rounds, "generations": generations, "models": {}}
    for name in options.models:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            advance = functools.partial(progress.advance, progress.add_task(name, total=rounds))
            times = measure(name, options.device, rounds, generations, advance)
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
