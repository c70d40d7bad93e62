"""How fast is `outplace.at`? Each update next to every way to write it by hand, forward and backward, time and memory.

For each kind of update, size and dtype, all routes are first compared with each other (result and gradients), and then
timed in turns: in each turn every route is called a few times in a row. Two figures are taken from each turn: the
multiple of a plain copy of x, which is the least that a new tensor costs, and for `at` the multiple of each route by
hand. The result is the median of all turns, so that it does not matter if the whole machine is slower for a while.
Memory is the peak above the inputs, in multiples of x. On the CPU there is one thread and the time is that of the
thread, so a busy machine counts little; the allocator keeps freed memory, because page faults differ by chance, and
each turn gets another block of memory. On CUDA there are two times: by the clock, with a synchronisation at the ends
of a turn, and on the device alone, whose queue is full from the start, as in a training step that keeps it busy.

    python benchmarks/updates.py                      # the device at hand
    python benchmarks/updates.py --out build/updates  # results.json and one picture a device
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler, which measures the CPU's memory, says much

import torch
from torch import Tensor

from outplace import at, blend, to_mask

sys.path.insert(0, str(Path(__file__).parent))
from updates_picture import draw, summary

Route = Callable[[Tensor, Tensor], Tensor]
"""From x and v (an empty tensor where the value is a number) to the updated tensor."""

FEWEST_TURNS, MOST_TURNS, SECONDS_OF_TURNS = {"cpu": 25, "cuda": 9}, 60, {"cpu": 0.15, "cuda": 0.06}
"""How many turns a route has, and how long they take it if that is between the two numbers."""
TIMES_FOR_CLOSE = {"cpu": 4, "cuda": 1}
"""Routes that are about as fast as `at` get so many times as many turns: on the CPU turns differ by 20%."""
MOST_CALLS_A_TURN, SECONDS_A_TURN = {"cpu": 100, "cuda": 50}, {"cpu": 0.02, "cuda": 0.005}
TURNS_ON_DEVICE = 5
MOST_QUEUED, SECONDS_QUEUED = 20, 0.005
"""How many calls of how long wait in the device's queue at once; it has room for about a thousand kernels."""
LEAST_ON_DEVICE = 1 << 20
"""For fewer elements the time on the device alone is not measured: it is a microsecond or two."""
CYCLES_TO_QUEUE_ONE = 500_000
"""How long the device is kept busy for each call to come, about a quarter of a millisecond."""
SIZES = {
    "cpu": {"10^3": 1_000, "10^5": 100_000, "10^7": 10_000_000},
    "cuda": {"10^3": 1_000, "2^16": 1 << 16, "2^20": 1 << 20, "2^23": 1 << 23, "2^27": 1 << 27},
}
DTYPES = (torch.float32, torch.bfloat16)


class Case(NamedTuple):
    x: Tensor
    v: Tensor
    routes: dict[str, Route]
    """`at` first; the others are what people write by hand."""


# -- the updates ----------------------------------------------------------------------------------------------------


def assigned(index: Any, value: Any = None) -> Route:
    def route(x: Tensor, v: Tensor) -> Tensor:
        y = x.clone()
        y[index] = v if value is None else value
        return y

    return route


def mask_number(x: Tensor) -> Case:
    mask = torch.rand_like(x, dtype=torch.float32) < 0.5
    zeros = torch.zeros((), dtype=x.dtype, device=x.device)
    return Case(
        x,
        no_value(x),
        {
            "at": lambda x, v: at(x)[mask].set(0.0),
            "torch.where": lambda x, v: torch.where(mask, 0.0, x),
            "masked_fill": lambda x, v: x.masked_fill(mask, 0.0),
            "clone, assign": assigned(mask, 0.0),
            "index_put": lambda x, v: torch.index_put(x, (mask,), zeros),
            "blend": lambda x, v: blend(x, mask, 0.0),
            "blend, compiled": compiled(lambda x, v: x + mask * (0.0 - x)),
        },
    )


def mask_tensor(x: Tensor) -> Case:
    mask = torch.rand_like(x, dtype=torch.float32) < 0.5
    return Case(
        x,
        torch.randn_like(x),
        {
            "at": lambda x, v: at(x)[mask].set(v),
            "torch.where": lambda x, v: torch.where(mask, v, x),
            "blend": lambda x, v: blend(x, mask, v),
            "blend, compiled": compiled(lambda x, v: x + mask * (v - x)),
        },
    )


def mask_of_rows(x: Tensor) -> Case:
    x = x.reshape(-1, 8) if x.numel() < 10_000 else x.reshape(-1, 64 if x.numel() % 64 == 0 else 100)
    mask = torch.rand(len(x), device=x.device) < 0.5
    return Case(
        x,
        no_value(x),
        {
            "at": lambda x, v: at(x)[mask].set(0.0),
            "torch.where": lambda x, v: torch.where(mask[:, None], 0.0, x),
            "masked_fill": lambda x, v: x.masked_fill(mask[:, None], 0.0),
            "clone, assign": assigned(mask, 0.0),
        },
    )


def mask_of_keys(x: Tensor) -> Case:
    """As in attention: a mask [batch, 1, 1, keys] for scores [batch, heads, queries, keys]."""
    keys = 250 if x.numel() % 1000 == 0 else 256
    x = x.reshape(2, 2, -1, keys)
    mask = torch.rand(2, 1, 1, keys, device=x.device) < 0.5
    return Case(
        x,
        no_value(x),
        {
            "at": lambda x, v: at(x)[mask].set(-1e4),
            "torch.where": lambda x, v: torch.where(mask, -1e4, x),
            "masked_fill": lambda x, v: x.masked_fill(mask, -1e4),
        },
    )


def mask_strided(x: Tensor) -> Case:
    x = x.reshape(-1, 8).t()
    mask = torch.rand(x.shape, device=x.device) < 0.5
    return Case(
        x,
        no_value(x),
        {
            "at": lambda x, v: at(x)[mask].set(0.0),
            "torch.where": lambda x, v: torch.where(mask, 0.0, x),
            "masked_fill": lambda x, v: x.masked_fill(mask, 0.0),
            "clone, assign": assigned(mask, 0.0),
        },
    )


def slice_number(x: Tensor) -> Case:
    part = slice(len(x) // 4, len(x) // 2)
    mask = to_mask(part, like=x)
    return Case(
        x,
        no_value(x),
        {
            "at": lambda x, v: at(x)[part].set(0.0),
            "slice_scatter": lambda x, v: torch.slice_scatter(
                x, x.new_zeros(part.stop - part.start), 0, part.start, part.stop
            ),
            "clone, assign": assigned(part, 0.0),
            "blend": lambda x, v: blend(x, mask, 0.0),
        },
    )


def slice_tensor(x: Tensor) -> Case:
    part = slice(len(x) // 4, len(x) // 2)
    return Case(
        x,
        torch.randn_like(x[part]),
        {
            "at": lambda x, v: at(x)[part].set(v),
            "slice_scatter": lambda x, v: torch.slice_scatter(x, v, 0, part.start, part.stop),
            "clone, assign": assigned(part),
            "cat": lambda x, v: torch.cat([x[: part.start], v, x[part.stop :]]),
        },
    )


def columns(x: Tensor) -> Case:
    x = x.reshape(-1, 8) if x.numel() < 10_000 else x.reshape(-1, 1000 if x.numel() % 1000 == 0 else 1024)
    part = slice(x.shape[1] // 4, x.shape[1] // 2)
    index = (slice(None), part)
    return Case(
        x,
        torch.randn_like(x[index]),
        {
            "at": lambda x, v: at(x)[:, part].set(v),
            "slice_scatter": lambda x, v: torch.slice_scatter(x, v, 1, part.start, part.stop),
            "clone, assign": assigned(index),
            "cat": lambda x, v: torch.cat([x[:, : part.start], v, x[:, part.stop :]], 1),
        },
    )


def one_column(x: Tensor) -> Case:
    x = x.reshape(-1, 8)
    return Case(
        x,
        torch.randn_like(x[:, 0]),
        {
            "at": lambda x, v: at(x)[:, 3].set(v),
            "select_scatter": lambda x, v: torch.select_scatter(x, v, 1, 3),
            "clone, assign": assigned((slice(None), 3)),
        },
    )


def rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x in rows, and the numbers of a tenth of them, each once."""
    x = x.reshape(-1, 8) if x.numel() < 10_000 else x.reshape(-1, 100 if x.numel() % 100 == 0 else 128)
    return x, torch.randperm(len(x), device=x.device)[: max(len(x) // 10, 1)]


def index_number(x: Tensor) -> Case:
    x, index = rows(x)
    zeros = torch.zeros((), dtype=x.dtype, device=x.device)
    mask = to_mask(index, like=x)
    return Case(
        x,
        no_value(x),
        {
            "at": lambda x, v: at(x)[index].set(0.0),
            "index_put": lambda x, v: torch.index_put(x, (index,), zeros),
            "index_fill": lambda x, v: torch.index_fill(x, 0, index, 0.0),
            "clone, assign": assigned(index, 0.0),
            "blend": lambda x, v: blend(x, mask, 0.0),
        },
    )


def index_tensor(x: Tensor) -> Case:
    x, index = rows(x)
    return Case(
        x,
        torch.randn_like(x[index]),
        {
            "at": lambda x, v: at(x)[index].set(v, unique_indices=True),
            "index_put": lambda x, v: torch.index_put(x, (index,), v),
            "index_copy": lambda x, v: torch.index_copy(x, 0, index, v),
            "clone, assign": assigned(index),
        },
    )


def index_repeated(x: Tensor) -> Case:
    """Rows may be named twice: the last value wins, and it alone gets the gradient. `index_put` gets that wrong."""
    x, index = rows(x)
    index = index[torch.randint(len(index), index.shape, device=x.device)]
    size, order = len(x), torch.arange(len(index), device=x.device)

    def last(index: Tensor) -> Tensor:
        return torch.zeros(size, dtype=torch.long, device=index.device).scatter_reduce(0, index, order, "amax")[index]

    def chosen(x: Tensor, v: Tensor) -> Tensor:
        wins = last(index) == order
        return torch.index_put(x, (index[wins],), v[wins])

    def spread(x: Tensor, v: Tensor) -> Tensor:
        latest = last(index)
        return torch.index_copy(x, 0, index, torch.where((latest == order)[:, None], v, v.detach()[latest]))

    return Case(
        x,
        torch.randn_like(x[index]),
        {
            "at": lambda x, v: at(x)[index].set(v),
            "last rows, index_put": chosen,
            "last rows, index_copy": spread,
        },
    )


def index_add(x: Tensor) -> Case:
    x, index = rows(x)
    return Case(
        x,
        torch.randn_like(x[index]),
        {
            "at": lambda x, v: at(x)[index].add(v),
            "index_put": lambda x, v: torch.index_put(x, (index,), v, accumulate=True),
            "index_add": lambda x, v: torch.index_add(x, 0, index, v),
        },
    )


CASES: dict[str, Callable[[Tensor], Case]] = {
    "x[mask] = 0": mask_number,
    "x[mask] = v": mask_tensor,
    "x[rows] = 0, a mask": mask_of_rows,
    "x[mask] = -1e4, as in attention": mask_of_keys,
    "x.T[mask] = 0": mask_strided,
    "x[a:b] = 0": slice_number,
    "x[a:b] = v": slice_tensor,
    "x[:, a:b] = v": columns,
    "x[:, 3] = v": one_column,
    "x[index] = 0": index_number,
    "x[index] = v": index_tensor,
    "x[index] = v, repeats": index_repeated,
    "x[index] += v": index_add,
}


def no_value(x: Tensor) -> Tensor:
    return x.new_empty(0)


def compiled(function: Route) -> Route:
    return torch.compile(function, dynamic=False)


# -- measuring ------------------------------------------------------------------------------------------------------


class Timed(NamedTuple):
    turns: list[float]
    """Seconds of a call, by the turn."""
    on_device: list[float]
    """The same without what Python takes to ask for it; on the CPU there is no such thing."""
    memory: float
    """Bytes at the peak, above what was there before."""

    @property
    def seconds(self) -> float:
        return statistics.median(self.turns)

    def ratio(self, other: Timed) -> float:
        return _ratio(self.turns, other.turns)

    def ratio_on_device(self, other: Timed) -> float:
        return _ratio(self.on_device or self.turns, other.on_device or other.turns)


def _ratio(turns: list[float], others: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(turns, others, strict=False))


def measured(calls: dict[str, Callable[[], Any]], device: str, on_device_too: bool) -> dict[str, Timed]:
    """The times of each call, taken in turns, and the peak of its memory."""
    counts = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        fitting = int(SECONDS_A_TURN[device] / max(seconds(call, 3, device), 1e-7))
        counts[name] = max(1, min(MOST_CALLS_A_TURN[device], fitting))
    longest = max(counts[name] * seconds(call, 1, device) for name, call in calls.items())
    names = list(calls)
    turns: dict[str, list[float]] = {name: [] for name in names}
    on_device: dict[str, list[float]] = {name: [] for name in names}
    chance = random.Random(0)
    rounds = max(FEWEST_TURNS[device], min(MOST_TURNS, int(SECONDS_OF_TURNS[device] / longest)))
    for turn in range(rounds * TIMES_FOR_CLOSE[device]):
        if turn == rounds:
            names = close_to_at(turns)
        chance.shuffle(names)  # what comes after another may be the slower for it
        for name in names:
            ballast = ballast_for(device, chance)
            turns[name].append(seconds(calls[name], counts[name], device))
            del ballast
    for _ in range(TURNS_ON_DEVICE if on_device_too else 0):
        for name in names:
            queued = max(1, min(MOST_QUEUED, int(SECONDS_QUEUED / min(turns[name]))))
            on_device[name].append(seconds_on_device(calls[name], queued))
    return {name: Timed(turns[name], on_device[name], peak_memory(call, device)) for name, call in calls.items()}


def close_to_at(turns: dict[str, list[float]]) -> list[str]:
    """The routes that might be as quick as `at`, by their medians so far, and what all are measured by."""
    medians = {name: statistics.median(times) for name, times in turns.items()}
    slowest = max(median for name, median in medians.items() if name.startswith("at"))
    return [name for name, median in medians.items() if name == "copy" or median < 1.5 * slowest]


def ballast_for(device: str, chance: random.Random) -> Tensor | None:
    """Takes the memory that the last result lay in, or a part of it, so that the next one lies elsewhere.

    The allocator gives one route the same block again and again, and on the CPU some blocks are 10% slower than others.
    """
    return torch.empty(chance.randrange(1 << 20, 1 << 26), dtype=torch.uint8) if device == "cpu" else None


def seconds(call: Callable[[], Any], count: int, device: str) -> float:
    clock = time.perf_counter if device == "cuda" else time.thread_time
    wait(device)
    start = clock()
    for _ in range(count):
        call()
    wait(device)
    return (clock() - start) / count


def seconds_on_device(call: Callable[[], Any], count: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    torch.cuda._sleep(CYCLES_TO_QUEUE_ONE * count)
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / count


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def peak_memory(call: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    current = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        current += event.nbytes()
        peak = max(peak, current)
    return peak


def forward_call(route: Route, case: Case, grad: Tensor) -> Callable[[], Any]:
    return lambda: route(case.x, case.v)


def backward_call(route: Route, case: Case, grad: Tensor) -> Callable[[], Any]:
    inputs = [tensor for tensor in (case.x, case.v) if tensor.requires_grad]
    result = route(case.x, case.v)
    return lambda: torch.autograd.grad(result, inputs, grad, retain_graph=True)


def together_call(route: Route, case: Case, grad: Tensor) -> Callable[[], Any]:
    inputs = [tensor for tensor in (case.x, case.v) if tensor.requires_grad]
    return lambda: torch.autograd.grad(route(case.x, case.v), inputs, grad)


def alone_call(route: Route, case: Case, grad: Tensor) -> Callable[[], Any]:
    """Where no gradient is wanted, as in inference: autograd has no part in it."""
    x, v = case.x.detach(), case.v.detach()
    return lambda: route(x, v)


WAYS = {"forward": forward_call, "backward": backward_call, "together": together_call, "alone": alone_call}


def check(case: Case) -> None:
    """Every route gives what the last one by hand gives, and the same gradients."""
    inputs = [tensor for tensor in (case.x, case.v) if tensor.requires_grad]
    grad = torch.randn_like(case.x)
    expected: tuple[Tensor, ...] | None = None
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2}[case.x.dtype]
    for name, route in reversed(case.routes.items()):
        result = route(case.x, case.v)
        found = (result.detach(), *torch.autograd.grad(result, inputs, grad))
        if expected is None:
            expected = found
        for one, other in zip(found, expected, strict=True):
            worst = (one - other).abs().max().item() if one.numel() else 0.0
            scale = max(other.abs().max().item() if other.numel() else 0.0, 1.0)
            if not worst <= tolerance * scale:
                raise AssertionError(f"{name} differs by {worst:g}")


def keep_freed_memory() -> None:
    """Tells the allocator of the C library to give nothing back to the system, and to take no large block from it."""
    if sys.platform == "linux":
        trim_threshold, top_pad, mmap_max = -1, -2, -4
        allocator = ctypes.CDLL(None)
        for option, value in ((mmap_max, 0), (trim_threshold, (1 << 31) - 1), (top_pad, 1 << 29)):
            allocator.mallopt(option, value)


def run(device: str, sizes: dict[str, int], wanted: list[str]) -> list[dict[str, Any]]:
    records = []
    for size, elements in sizes.items():
        for dtype in DTYPES:
            for name in wanted:
                torch.manual_seed(0)
                case = CASES[name](torch.randn(elements, device=device).to(dtype))
                case.x.requires_grad_()
                if case.v.numel():
                    case.v.requires_grad_()
                if elements != max(SIZES[device].values()):  # compiled for each shape; and never the best route
                    case.routes.pop("blend, compiled", None)
                    case.routes.pop("blend", None)
                check(case)
                records += measure(case, name, size, dtype, device)
                print(line(records[-1], records), file=sys.stderr, flush=True)
                del case
                if device == "cuda":
                    torch.cuda.empty_cache()
    return records


def measure(case: Case, name: str, size: str, dtype: torch.dtype, device: str) -> list[dict[str, Any]]:
    """One record a route, and one for the copy."""
    x_bytes = case.x.numel() * case.x.element_size()
    plain = case.x.detach()
    copy = {"copy": lambda: plain.clone()}
    grad = torch.randn_like(plain)  # one for all: where it lies makes a difference
    times = {
        way: measured(
            {**copy, **{name: call(route, case, grad) for name, route in case.routes.items()}},
            device,
            device == "cuda" and case.x.numel() >= LEAST_ON_DEVICE,
        )
        for way, call in WAYS.items()
    }
    by_hand = [route for route in case.routes if not route.startswith("at")]
    records = []
    for route in ["copy", *case.routes]:
        record: dict[str, Any] = {
            "device": device,
            "update": name,
            "size": size,
            "dtype": str(dtype).removeprefix("torch."),
            "route": route,
        }
        for way, timed in times.items():
            own = timed[route]
            record[f"{way}_us"] = round(own.seconds * 1e6, 3)
            record[f"{way}_ratio"] = round(own.ratio(timed["copy"]), 3)
            record[f"{way}_on_device"] = round(own.ratio_on_device(timed["copy"]), 3)
            record[f"{way}_memory"] = round(own.memory / x_bytes, 3)
            if route.startswith("at"):  # beside the best by hand, turn by turn
                record[f"{way}_beside"] = round(max(own.ratio(timed[other]) for other in by_hand), 3)
                on_device = max(own.ratio_on_device(timed[other]) for other in by_hand)
                record[f"{way}_on_device_beside"] = round(on_device, 3)
        records.append(record)
    return records


# -- showing --------------------------------------------------------------------------------------------------------


def line(last: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """One update in one line: each route's ratios to the copy."""
    same = [r for r in records if all(r[k] == last[k] for k in ("update", "size", "dtype"))]
    figures = "  ".join(f"{r['route']} {r['forward_ratio']:.2f}/{r['backward_ratio']:.2f}" for r in same[1:])
    return f"{last['size']:>5} {last['dtype']:>8}  {last['update']}: {same[0]['forward_us']:.1f} us  {figures}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="write results.json and pictures to this folder")
    parser.add_argument("--only", help="only updates whose name contains this")
    parser.add_argument("--sizes", nargs="+", help="only these sizes, as they are named in the results")
    options = parser.parse_args()
    sizes = {name: n for name, n in SIZES[options.device].items() if not options.sizes or name in options.sizes}
    wanted = [name for name in CASES if not options.only or options.only in name]
    if not sizes or not wanted:
        parser.error(f"nothing to measure; sizes: {', '.join(SIZES[options.device])}; updates: {', '.join(CASES)}")
    about = {
        "device": torch.cuda.get_device_name()
        if options.device == "cuda"
        else platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    torch.set_num_threads(1)
    keep_freed_memory()
    records = run(options.device, sizes, wanted)
    print(summary(records), end="")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        results = options.out / f"updates-{options.device}.json"
        results.write_text(json.dumps({"about": about, "records": records}, indent=1) + "\n")
        draw(results, results.with_suffix(".svg"))


if __name__ == "__main__":
    main()
