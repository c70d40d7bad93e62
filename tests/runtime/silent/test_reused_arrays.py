"""Tensors over one array that is filled again, as programs under `outplace run`. The truth is what they print."""

from __future__ import annotations

import pytest

from cases.conftest import zygote as zygote

PROGRAM = """
import numpy as np
import torch


def windows():
    array = np.zeros(3, dtype=np.float32)
    for start in range(4):
        array[:] = np.arange(start, start + 3)
        yield {take}(array)


w = torch.ones(3, requires_grad=True)
kept = {kept}
for batch in kept.values() if isinstance(kept, dict) else kept:
    (w * batch).sum().backward()
    print(batch.sum().item())
"""
KEPT = ["list(windows())", "[batch for batch in windows()]", "tuple(windows())", "dict(enumerate(windows()))"]


def run(zygote, tmp_path, take, kept):
    (tmp_path / "program.py").write_text(PROGRAM.format(take=take, kept=kept))
    done = zygote.run(tmp_path, "program.py")
    found = [(one["code"], one["mutations"][0]["site"]["line"]) for one in done.report["diagnoses"]]
    return [float(word) for word in done.output.split()[:4]], found


@pytest.mark.parametrize("kept", KEPT)
def test_tensors_that_all_show_the_last_window(zygote, tmp_path, kept):
    assert run(zygote, tmp_path, "torch.from_numpy", kept) == ([12.0] * 4, [("OUT311", 9)])


@pytest.mark.parametrize(("take", "kept"), [("torch.from_numpy", "windows()"), ("torch.tensor", KEPT[0])])
def test_each_window_has_its_own_values(zygote, tmp_path, take, kept):
    assert run(zygote, tmp_path, take, kept) == ([3.0, 6.0, 9.0, 12.0], [])
