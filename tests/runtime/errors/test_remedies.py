"""What `run` offers for a bug is what `check` offers for it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cases.conftest import Zygote
from cases.conftest import zygote as zygote
from outplace.checking.file_check import check_text
from outplace.knowledge import kinds
from outplace.model import Finding
from outplace.source.project import Project


def before(kind: kinds.Kind) -> list[str]:
    """The example of the rule's page."""
    return re.findall(r"(?s)## Before\n\n```python\n(.*?)```", kinds.page(kind))


EXAMPLES = {kind.code: text for kind in kinds.KINDS for text in before(kind)}
CRITIC = """\
import torch
from torch import nn

critic = nn.Linear(4, 1)
x = torch.randn(3, 4, requires_grad=True)
out = critic(x).sum()
for p in critic.parameters():
    p.data.clamp_(-0.01, 0.01)
out.backward()
"""
STEPPED = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 3)
for _ in range(3):
    first = model(x).sum()
    second = model(2 * x).pow(2).sum()
    optimizer.zero_grad()
    first.backward()
    optimizer.step()
    second.backward()
    optimizer.step()
"""
EXAMPLES |= {"OUT301 weights clamped": CRITIC, "OUT202 loss made too early": STEPPED}


def changes(diff: str) -> list[str]:
    """The lines that a diff takes away and adds."""
    return [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def offered_by_run(zygote: Zygote, folder: Path, program: str) -> dict[str, list[list[str]]]:
    """The diffs for each diagnosed bug, by its code."""
    (folder / "program.py").write_text(program)
    done = zygote.run(folder, "program.py")
    return {
        one["code"]: [changes(fix["diff"]) for fix in one["fixes"] if fix.get("diff")]
        for one in done.report["diagnoses"]
    }


def offered_by_check(folder: Path, program: str) -> dict[str, list[list[str]]]:
    findings: tuple[Finding, ...] = check_text(str(folder / "program.py"), program, Project()).findings
    fixes: dict[str, list[list[str]]] = {}
    for one in findings:
        fixes.setdefault(one.code, []).extend([changes(one.fix.diff)] if one.fix and one.fix.diff else [])
    return fixes


@pytest.mark.parametrize("name", EXAMPLES)
def test_run_offers_what_check_offers(name: str, zygote: Zygote, tmp_path: Path):
    run, check = offered_by_run(zygote, tmp_path, EXAMPLES[name]), offered_by_check(tmp_path, EXAMPLES[name])
    for code in run.keys() & check.keys():
        assert bool(run[code]) == bool(check[code]), code
        assert not run[code] or run[code][0] in check[code], code


def test_most_rules_are_compared(tmp_path: Path):
    """The test above says nothing where only one of the two finds the bug."""
    assert len(EXAMPLES) > 50
    assert sum(bool(offered_by_check(tmp_path, text).get(code[:6])) for code, text in EXAMPLES.items()) > 35


def test_the_diff_for_clamped_weights_goes_backward_first(zygote: Zygote, tmp_path: Path):
    (diff,) = offered_by_run(zygote, tmp_path, CRITIC)["OUT301"]
    assert diff == ["+out.backward()", "-out.backward()"]


KEPT_TWICE = """
import torch

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
hidden = torch.tanh(torch.randn(8, 4) @ w)  # keeps it
loss = (hidden**2).sum()  # keeps it, too
hidden.data.clamp_(-0.1, 0.1)
loss.backward()
print("GRADIENT", w.grad.abs().sum().item())
"""


def test_a_tensor_that_two_operations_keep_gets_a_copy_for_each(zygote: Zygote, tmp_path: Path):
    (diff,) = offered_by_run(zygote, tmp_path, KEPT_TWICE)["OUT301"]
    mended = KEPT_TWICE
    for old, new in zip(diff[: len(diff) // 2], diff[len(diff) // 2 :], strict=True):
        mended = mended.replace(old[1:], new[1:])
    (tmp_path / "mended.py").write_text(mended)
    (tmp_path / "meant.py").write_text(KEPT_TWICE.replace("hidden.data.clamp_(-0.1, 0.1)\n", ""))
    outputs = [zygote.python(tmp_path, name).stdout for name in ("mended.py", "meant.py")]
    assert outputs[0] == outputs[1] != ""


SAVED_INSIDE = """
import torch

def halves(x):
    return x.sin() + x**2

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
x = torch.randn(3, 4) @ w
{write}
x.sum().backward()
print("GRADIENT", w.grad.sum().item())
"""


@pytest.mark.parametrize(
    "write, may_copy",
    [
        ("x[:, 2:] = x[:, :2].sin() * x[:, :2]", False),
        ("x[:, 2:] = halves(x[:, :2])", False),
        ("for t in range(1, 4):\n    x[:, t] = halves(x[:, t - 1])", False),
        ("x[:, 2:] += halves(x[:, :2])", False),
        ("half = halves(x[:, :2])\nx[:, 2:] = half", True),
        ("half = halves(x[:, :2])\nx[:, 2:] += half", True),
    ],
)
def test_what_run_calls_safe_mends_the_program(write: str, may_copy: bool, zygote: Zygote, tmp_path: Path):
    """A copy before a statement that saves the tensor itself comes too early."""
    (tmp_path / "program.py").write_text(SAVED_INSIDE.format(write=write))
    (diagnosis,) = zygote.run(tmp_path, "program.py").report["diagnoses"]
    fixes = diagnosis["fixes"]
    assert any(fix["title"] == "Write into a copy of `x`" for fix in fixes) is may_copy
    safe = [fix["diff"] for fix in fixes if fix["safety"] == "safe"]
    assert safe == [fix["diff"] for fix in fixes[: len(safe)]]
    for diff in safe:
        (tmp_path / "mended.py").write_text((tmp_path / "program.py").read_text())
        subprocess.run(["patch", "mended.py"], cwd=tmp_path, input=diff, text=True, check=True, capture_output=True)
        assert "GRADIENT" in zygote.python(tmp_path, "mended.py").stdout
