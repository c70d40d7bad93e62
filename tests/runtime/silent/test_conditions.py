"""Two names of one tensor, where a condition decides which name is read: only branches that run count."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.conftest import Zygote
from cases.conftest import zygote as zygote

# Like a conversion of colours: with a graph it makes new tensors, without one it writes into parts of one result.
FUNCTION = """
import torch

def convert(image, scale, fast=False):
    light = image.detach() + 1.0
    if CONDITION:
        hue = light
        whole = light
    else:
        whole = torch.empty(2, 3, dtype=image.dtype)
        hue, light = whole[0], whole[1]
        torch.add(image.detach(), 1.0, out=light)
    light /= 2
    if CONDITION:
        hue = image * scale
    else:
        torch.mul(image.detach(), scale, out=hue)
    hue += 1
    if CONDITION:
        return torch.stack([hue, light])
    return whole

def train(fast):
    image = torch.ones(3, requires_grad=True)
    for _ in range(3):
        (convert(image, 2.0, fast).sum() + image.sum()).backward()
        with torch.no_grad():
            convert(image, 2.0, fast)
            convert(image.detach(), 2.0, fast)
    print("RESULT", image.grad.tolist())

"""
CONDITIONS = {
    "what the tensor requires": ("image.requires_grad", "train(False)"),
    "a flag": ("not fast", "train(False)"),
}
CHANGED = {
    "the flag changes": ("fast", "    light /= 2\n", "    light /= 2\n    fast = False\n"),
    "the branch reads it": ("fast", "        hue = image * scale\n", "        hue = hue * scale\n"),
}


def codes(zygote: Zygote, folder: Path, program: str) -> set[str]:
    (folder / "program.py").write_text(program)
    found = zygote.run(folder, "program.py")
    assert found.status == 0, found.output
    assert "could not read" not in found.output  # an error in outplace
    return {one["code"] for one in found.report["diagnoses"]}


@pytest.mark.parametrize(("condition", "call"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_name_that_only_another_branch_reads_is_not_told(condition, call, zygote: Zygote, tmp_path: Path):
    assert codes(zygote, tmp_path, FUNCTION.replace("CONDITION", condition) + call) == set()


@pytest.mark.parametrize(("condition", "old", "new"), CHANGED.values(), ids=CHANGED)
def test_a_name_that_is_read_is_told(condition, old, new, zygote: Zygote, tmp_path: Path):
    program = FUNCTION.replace("CONDITION", condition)
    assert program.count(old) == 1
    assert codes(zygote, tmp_path, program.replace(old, new) + "train(True)") == {"OUT320"}


def test_the_written_part_may_belong_to_a_list(zygote: Zygote, tmp_path: Path):
    program = """
import torch

def pyramid(image):
    levels = [[image.clone()]]
    levels[-1][0] /= 2
    return levels

def main(image):
    levels = pyramid(image)
    return levels[0][0].sum() + image.sum()

for _ in range(3):
    print(main(torch.ones(3)).item())
"""
    assert codes(zygote, tmp_path, program) == set()
