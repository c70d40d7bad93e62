"""Random tensor programs through `outplace fix`: is any of them harmed?

    python benchmarks/fuzz_fix.py [--count 5000] [--minutes 5] [--seed 0] [--json FILE]

Each program (views, aliases, masks, loops, functions, containers; some legal, some not) is repaired from its source,
and once more as a tree of modules in two files, with its state on `self`. A repaired program's loss must be that of the
original, and its gradients those of numerical differentiation of the original's forward: central differences in
float64, computed without autograd. A legal program must come out as it was, and a second repair must change nothing.
Whatever is harmed is printed with its number, and the exit code is 1.

The programs and the judge are those of `tests/repair`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "repair"))

from differences import verdict
from in_files import joined, repaired_files
from programs import modules, program

from outplace.model import Finding
from outplace.repair.drive.from_source import repair
from outplace.source.analysis import check_file
from outplace.source.project import Project


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0, help="The number of the first program.")
    parser.add_argument("--minutes", type=float, default=math.inf, help="Stop after this time.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    harmed: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for number in range(options.seed, options.seed + options.count):
        if time.perf_counter() - start > 60 * options.minutes:
            break
        for answer in (_judged(program(number)), _judged_in_files(modules(number))):
            counts[answer.split(":")[0]] += 1
            if answer.startswith("HARMED"):
                harmed[number] = answer
                print(f"program {number}: {answer}", flush=True)
    print(f"{counts.total()} programs in {time.perf_counter() - start:.0f} s, {len(harmed)} harmed")
    for answer, count in counts.most_common():
        print(f"  {count:6} {_MEANING[answer]}")
    if options.json:
        options.json.write_text(json.dumps({"counts": counts, "harmed": harmed}, indent=1))
    return 1 if harmed else 0


_MEANING = {
    "legal": "legal, and left alone",
    "mended": "repaired: loss and gradients are those of the original forward, numerically differentiated",
    "left": "fail, and left as they were",
    "partly": "repaired in part: another error is left",
    "refused": "repaired where PyTorch refuses the original's very forward: nothing to compare with",
    "unmeasured": "repaired; values too large, or hidden from autograd, for a comparison",
    "undivided": "cannot be divided into modules",
    "HARMED": "HARMED",
}


def _judged(source: str) -> str:
    try:
        fixed = _fixed(source)
        compile(fixed, "program.py", "exec")
        answer = verdict(source, fixed)
        return "HARMED: a second repair changes it again" if _fixed(fixed) != fixed else answer
    except Exception as error:
        return f"HARMED: {error!r}"


def _judged_in_files(texts: tuple[str, str] | None) -> str:
    """The same for a program in two files, judged as one text."""
    if texts is None:
        return "undivided"
    try:
        return verdict(joined(*texts), joined(*repaired_files(*texts)))
    except Exception as error:
        return f"HARMED: {error!r}"


def _fixed(source: str) -> str:
    def check(path: str, text: str) -> tuple[Finding, ...]:
        return tuple(check_file(path, text, Project()).findings)

    return repair("program.py", source, check, lambda _: True).text


if __name__ == "__main__":
    sys.exit(main())
