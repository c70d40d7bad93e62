"""Kills `outplace fix` and `outplace run --fix` at random moments: is a file ever left half-written?

    python benchmarks/kill_fix.py [--moments 100] [--seed 0]

Each command is first timed, then killed (SIGKILL, with all its children) that many times, at moments spread over its
time and a little beyond. Exit code 1 if some file was then neither as it was nor wholly repaired.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "repair"))

from killing import MANY, PROGRAM, half_written, repaired


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    choose = random.Random(options.seed)
    broken = 0
    for files, words in ((MANY, ("fix", ".")), (PROGRAM, ("run", "--fix", "train.py"))):
        with tempfile.TemporaryDirectory() as scratch:
            whole, seconds = repaired(Path(scratch, "whole"), files, *words)
            changed = old = 0
            for number in range(options.moments):
                folder = Path(scratch, str(number))
                # Every other moment lies in the last third, where files are written.
                share = choose.random() if number % 2 else 0.7 + 0.4 * choose.random()
                halves = half_written(folder, files, whole, share * seconds, *words)
                broken += len(halves)
                for name in halves:
                    print(f"{name} is half-written: killed after {share * seconds:.2f} s")
                repaired_now = sum((folder / name).read_text() == whole[name] for name in files)
                changed, old = changed + repaired_now, old + len(files) - repaired_now - len(halves)
        what = f"outplace {' '.join(words)}: killed at {options.moments} moments of {seconds:.1f} s"
        print(f"{what}: {old} files as they were, {changed} wholly repaired", flush=True)
    print(f"{broken} files half-written")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
