"""The remedies of `outplace run` are judged with all files of the program: another module may keep what it returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .conftest import Zygote

LAYERS = """import torch
from torch import nn


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        gate = torch.sigmoid(self.lin(x))
        return gate * x, gate
"""
MAIN = """import torch
from layers import Attend
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = Attend()

    def forward(self, x):
        context, gate = self.attend(x)
        gate[:, 0] = 0.0
        return (x + context + gate).sum()


Model()(torch.ones(2, 3)).backward()
"""


def fixes(zygote: Zygote, folder: Path, layers: str, main: str = MAIN) -> list[dict[str, Any]]:
    (folder / "layers.py").write_text(layers)
    (folder / "train.py").write_text(main)
    (found,) = zygote.run(folder, "train.py").report["diagnoses"]
    return list(found["fixes"])


def test_what_nobody_else_holds_may_be_copied(zygote: Zygote, tmp_path: Path) -> None:
    first, *_ = fixes(zygote, tmp_path, LAYERS)
    assert (first["title"], first["safety"]) == ("Write into a copy of `gate`", "safe")
    assert "+++ b/train.py" in first["diff"]


def test_what_the_module_keeps_may_not(zygote: Zygote, tmp_path: Path) -> None:
    kept = LAYERS.replace("        return gate", "        self.last = gate\n        return gate")
    reader = MAIN.replace("Model()(torch", "model = Model()\nmodel(torch") + "print(model.attend.last)\n"
    found = fixes(zygote, tmp_path, kept, reader)
    assert all(fix["safety"] != "safe" for fix in found if "gate = gate.clone()" in (fix["diff"] or ""))
    for fix in found:
        if fix["safety"] == "safe":  # the write is still seen in `self.last`
            assert "+++ b/layers.py" in fix["diff"] and "+++ b/train.py" not in fix["diff"]
