"""What `outplace reclaim` finds and saves on four models, and whether its account agrees with CUDA's allocator.

    python benchmarks/reclaim.py                    # on the CPU
    python benchmarks/reclaim.py --device cuda      # larger models, on a GPU; models side by side

Each model is trained for a few steps as it is and with the changes; the figures are those of `outplace reclaim --json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parent / "models" / "out_of_place"
EXPERIMENT = Path(__file__).parent.parent / "examples" / "relu_memory.py"
PROGRAMS = {
    "ResNet-18, leaky ReLU": ("resnet.py", ["--activation", "leaky_relu"]),
    "ResNet-18, ReLU": ("resnet.py", ["--activation", "relu"]),
    "U-Net, leaky ReLU": ("unet.py", ["--activation", "leaky_relu"]),
    "U-Net, ReLU": ("unet.py", ["--activation", "relu"]),
    "small GPT": ("gpt.py", []),
    "MLP, leaky ReLU": ("mlp.py", []),
}
RECOMPUTED = "ResNet-18, ReLU", "U-Net, ReLU", "small GPT"
"""Those that are measured once more with `--recompute`, one after the other: it is time that they pay with."""
LARGE = {
    "resnet.py": ["--width", "64", "--batch", "128", "--side", "64"],
    "unet.py": ["--width", "32", "--batch", "16", "--side", "256"],
    "gpt.py": ["--words", "32000", "--width", "512", "--length", "256", "--layers", "6", "--batch", "16"],
    "mlp.py": ["--features", "1024", "--hidden", "4096", "--batch", "32768"],
}


def measure(name: str, device: str, folder: Path, *more: str) -> dict[str, Any]:
    """One model's report; where there is none, what was said instead."""
    file, options = PROGRAMS[name]
    title = f"{name}, recomputed" if "--recompute" in more else name
    report = folder / f"{title.replace(' ', '_').replace(',', '')}.json"
    words = [str(MODELS / file), "--device", device, *options, *(LARGE[file] if device == "cuda" else ())]
    command = [sys.executable, "-m", "outplace", "reclaim", *more, "--json", str(report), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if not report.exists():
        return {"model": title, "error": done.stderr[-3000:], "code": done.returncode}
    return {"model": title, **json.loads(report.read_text()), "said": done.stderr}


def row(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"{result['model']:28} FAILED {result['error']}"
    peak = result["peak"]
    mib = 2**20

    def pair(before: int, after: int | None) -> str:
        if not after:
            return f"{before / mib:9.1f}      none"
        return f"{before / mib:9.1f} {after / mib:9.1f} {(after - before) / before:+7.1%}"

    text = f"{result['model']:28} peak {pair(peak['before'], peak['after'])}   activations "
    text += pair(peak["activations_before"], peak["activations_after"])
    if peak["allocator_before"]:
        off = (peak["before"] - peak["allocator_before"]) / peak["allocator_before"]
        text += f"   allocator {pair(peak['allocator_before'], peak['allocator_after'])}   account off by {off:+.2%}"
    if result["seconds_a_step"]:
        text += "   step {before:.4f} s before, {after:.4f} s after".format(**result["seconds_a_step"])
    text += f"   {len(result['suggestions'])} suggestions, {len(result['rejected'])} rejected"
    return f"{text}   {proved(result['proof'])}"


def proved(proof: dict[str, Any]) -> str:
    """Were the losses and gradients with the changes the same?"""
    if not proof["done"]:
        return "nothing to prove" if proof["steady"] else "NOT PROVED: the unchanged program differs from run to run"
    how = "; reproducible algorithms" if proof["reproducible_algorithms"] else ""
    counts = ", ".join(f"{proof[name]} {name}" for name in ("losses", "gradients", "parameters"))
    return f"bit for bit the same ({counts}{how})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--at-once", type=int, default=None, help="models that are measured side by side")
    parser.add_argument("--only", metavar="WORD", default="", help="models with this word in their name")
    parser.add_argument("--reproducible", action="store_true", help="hold CUDA to reproducible algorithms")
    options = parser.parse_args()
    names = [name for name in PROGRAMS if options.only in name]
    more = ["--reproducible"] if options.reproducible else []
    at_once = options.at_once or (len(names) if options.device == "cuda" else 1)
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    results = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        again = [name for name in RECOMPUTED if name in names]
        for result in itertools.chain(
            pool.map(lambda name: measure(name, options.device, Path(folder), *more), names),
            (measure(name, options.device, Path(folder), *more, "--recompute") for name in again),
        ):
            print(row(result), flush=True)
            results.append(result)
    experiment = subprocess.run(
        [sys.executable, str(EXPERIMENT), "--device", options.device], capture_output=True, text=True
    )
    print(experiment.stdout, experiment.stderr, sep="")
    if options.json:
        Path(options.json).write_text(json.dumps({"models": results, "experiment": experiment.stdout}, indent=1))


if __name__ == "__main__":
    main()
