"""What a program prints, warns of and raises is what it prints, warns of and raises without outplace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ARRAYS = """
import torch, numpy as np
mine = torch.ones(4)
for array in (
    np.from_dlpack(mine),
    np.frombuffer(b"abcdabcd", dtype=np.uint8),
    np.frombuffer(bytearray(b"abcdabcd"), dtype=np.uint8)[2:],
    np.asarray(memoryview(b"abcdabcd")).view(np.int32),
    np.arange(6.0).reshape(2, 3),
):
    print(torch.from_numpy(array).double().sum().item(), torch.as_tensor(array).shape)
"""
ONCE = """
import warnings, torch

def step(x, i):
    warnings.warn("this is said once")
    exec(compile(f"x = {i}", f"<text {i}>", "exec"), {})
    y = x * 2
    y += 1
    return y.sum()

x = torch.ones(3, requires_grad=True)
for i in range(4):
    loss = step(x, i)
    loss.backward()
    try:
        loss.backward()
        w = x.exp()
        w += 1
        w.sum().backward()
    except RuntimeError as error:
        print(str(error)[:40])
print(x.grad.tolist())
"""


def said(program: str, folder: Path, *command: str) -> tuple[str, list[str], int]:
    (folder / "program.py").write_text(program)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OUTPLACE")}
    line = [sys.executable, *command, "program.py"]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.stdout, [line for line in done.stderr.splitlines() if "Warning: " in line], done.returncode


@pytest.mark.parametrize("program", [ARRAYS, ONCE], ids=["arrays", "warnings"])
def test_it_says_the_same(program: str, tmp_path: Path):
    assert said(program, tmp_path, "-m", "outplace", "run") == said(program, tmp_path)
