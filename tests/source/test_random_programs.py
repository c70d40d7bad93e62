"""Random small programs: what torch says when they run, beside what reading them says."""

import random
import traceback
import warnings

import pytest
import torch

from outplace.source.analysis import check_file
from outplace.source.project import Project

PROGRAMS = 240

PRELUDE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
lin, ln, bn = nn.Linear(4, 4), nn.LayerNorm(4), nn.BatchNorm1d(4)
act, iact = nn.Sigmoid(), nn.ReLU(inplace=True)
seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
opt = torch.optim.SGD(lin.parameters(), lr=0.1)
rows, cols = torch.tensor([0, 1, 2, 3]), torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0]])
def bump(t):
    t.add_(1)
    return t
w = (torch.rand(4, 4) + 0.1).requires_grad_()
p = nn.Parameter(torch.rand(4, 4) + 0.1)
c = torch.rand(4, 4)
"""

NEW = (
    """\
{a}.exp()|{a}.sigmoid()|{a}.tanh()|torch.relu({a})|{a} * 2|{a} + 1|{a} ** 2|{a}.abs()|{a}.sin()|F.softmax({a}, -1)
{a}.clamp(-1, 1)|F.gelu({a})|{a}.sum(0, keepdim=True).expand(4, 4).clone()|{a}.mean() * {b}|F.layer_norm({a}, (4,))
{a} / ({b}.detach().abs() + 1)|{a}.clone()|{a}.t().contiguous()|torch.where({a} > 0, {a}, {b})|F.silu({a})
{a}.masked_fill({a} > 0, 0.5)|{a}.norm(dim=1, keepdim=True) + {b}|lin({a})|act({a})|bn({a})|seq({a})|ln({a})
F.normalize({a}, dim=-1)|1 - {a}|2 / ({a}.abs() + 1)|{a}.float()|torch.cat([{a}[:2], {b}[2:]])|{a}[rows]
torch.stack([{a}[0], {b}[1], {a}[2], {b}[3]])|{a}.gather(1, cols).repeat(1, 2)|{a}.prod(1, keepdim=True) * {b}
{a}.max(1, keepdim=True)[0] + {b}|{a}.logsumexp(1, keepdim=True) + {b}|{a} + {b}|{a} - {b}|{a} * {b}|{a} @ {b}
torch.max({a}, {b})|torch.addcmul({a}, {b}, {a})|torch.lerp({a}, {b}, 0.3)|torch.einsum('ij,jk->ik', {a}, {b})
F.linear({a}, {b})|torch.bmm({a}[None], {b}[None])[0]|F.mse_loss({a}, {b}) + {a}|torch.outer({a}[0], {b}[0])
{a}.t()|{a}.view(4, 4)|{a}[:]|{a}.transpose(0, 1)|{a}.view(16).view(4, 4)|{a}.detach()|{a}|{a}.view_as({b})
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

WRITES = (
    """\
{a}.add_(1)|{a}.mul_(2)|{a}.mul_({b})|{a}.add_({b})|{a}.zero_()|{a}.exp_()|{a}.sigmoid_()|{a}.relu_()|{a}.clamp_(-1, 1)
{a}.masked_fill_({b} > 0, 0.0)|{a}.copy_({b})|{a} += 1|{a} += {b}|{a} *= {b}|{a} -= {b}|{a}[0] = 0|{a}[0] = {b}[1]
{a}[1:3] = {b}[0:2]|{a}[:, 0] = 1.0|{a}[{b} > 0] = 0|{a}[0] += 1|{a}[0] *= {b}[0]|{a}[:2] += {b}[:2]|{a}[rows] = {b}
F.relu({a}, inplace=True)|F.relu({a}, True)|{a}.t().add_(1)|{a}[0].zero_()|{a}[0].add_({b}[0])|iact({a})|bump({a})
{a}.detach().mul_(2)|{a}.normal_()|{a}.pow_(2)|{a}.lerp_({b}, 0.5)|{a}.addcmul_({b}, {b})|{a}.index_add_(0, rows, {b})
{a}.scatter_(1, cols, 0.0)|{a}.unbind()[0].add_(1)|{a}.cumsum_(0)|{a}.fill_diagonal_(0)|opt.step()
for row in {a}:;    row += 1|for i in range(4):;    {a}[i] += {b}[i]|for i in range(3):;    {a}[i + 1] = {a}[i].tanh()
for i in range(3):;    {a}[i + 1] = {a}[i] * 2|with torch.no_grad():;    {a}.mul_(0.5)|u, v = {a}.chunk(2);u.mul_(2)
with torch.no_grad():;    lin.weight.mul_(0.9)|pair = [{a}, {b}];pair[0].add_(1)|named = dict(k={a});named['k'] += 1
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def _program(number: int) -> str:
    rng = random.Random(number)
    names, lines = ["w", "p", "c"], [PRELUDE.rstrip()]
    for count in range(rng.randint(3, 9)):
        one, other = rng.choice(names), rng.choice(names)
        if rng.random() < 0.6:
            names.append(f"x{count}")
            lines.append(f"{names[-1]} = " + rng.choice(NEW).format(a=one, b=other))
        else:
            target = rng.choice(names if rng.random() < 0.05 else names[2:])  # few writes to leaves: they end it all
            lines.extend(rng.choice(WRITES).format(a=target, b=other).split(";"))
    used = [name for name in names if rng.random() < 0.6]
    lines.append("loss = " + " + ".join(f"{name}.sum()" for name in (*used, names[-1], "lin.weight")))
    return "\n".join([*lines, "loss.backward()", ""])


def _run(source: str) -> tuple[str, set[int | None]]:
    """What torch says, and in which lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, "<program>", "exec"), {})
    except RuntimeError as error:
        return str(error), {f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "<program>"}
    return "", set()


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_program(number: int) -> None:
    torch.set_num_threads(1)
    source = _program(number)
    message, lines = _run(source)
    findings = check_file("random_program.py", source, Project()).findings
    loud = [finding for finding in findings if not finding.code.startswith("OUT3")]
    if not message:
        assert not [finding for finding in loud if finding.severity == "error"], source
    elif "modified by an inplace operation" in message:
        assert loud, source
    elif "does not require grad" not in message:
        assert {finding.site.line for finding in loud} & lines, source
