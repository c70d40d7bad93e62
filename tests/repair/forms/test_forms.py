"""Each form before and after, and its gradient against numerical differentiation of the original forward."""

from __future__ import annotations

import textwrap

import pytest
import torch

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef f(x, w):\n"
TAIL = """

x = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.1, 0.4, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
loss = f(x, w)
loss.backward()
"""

FORMS = [
    ("h = x.exp()\nh.add_(w)\nreturn h.sum()", "h = x.exp()\nh = h.add(w)\nreturn h.sum()"),
    ("h = x.exp()\nh.mul_(2).add_(w)\nreturn h.sum()", "h = x.exp()\nh = h.mul(2).add(w)\nreturn h.sum()"),
    ("h = x.exp()\nreturn h.mul_(2).sum()", "h = x.exp()\nreturn h.mul(2).sum()"),
    ("h = x.sigmoid()\ny = h.mul_(w)\nreturn y.sum()", "h = x.sigmoid()\ny = h.mul(w)\nreturn y.sum()"),
    ("h = x.exp()\ny = h.add_(1)\nreturn (y * h).sum()", "h = x.exp()\ny = h = h.add(1)\nreturn (y * h).sum()"),
    (
        "h = x.exp()\nh.zero_()\nreturn (h + x * w).sum()",
        "h = x.exp()\nh = torch.zeros_like(h)\nreturn (h + x * w).sum()",
    ),
    (
        "h = x.exp()\nh.copy_(w * 2)\nreturn (h * x).sum()",
        "h = x.exp()\nh = (w * 2).to(h.dtype).expand_as(h).clone()\nreturn (h * x).sum()",
    ),
    ("h = x.tanh()\ntorch.relu_(h)\nreturn h.sum()", "h = x.tanh()\nh = torch.relu(h)\nreturn h.sum()"),
    ("h = x.exp()\nh += w  # why\nreturn h.sum()", "h = x.exp()\nh = h + w  # why\nreturn h.sum()"),
    ("h=x.exp()\nh-=-w\nreturn h.sum()", "h=x.exp()\nh=h--w\nreturn h.sum()"),
    ("h = x.exp()\nh -= w + 1\nreturn h.sum()", "h = x.exp()\nh = h - (w + 1)\nreturn h.sum()"),
    ("h = x.exp()\nh *= w * 2\nreturn h.sum()", "h = x.exp()\nh = h * (w * 2)\nreturn h.sum()"),
    ("h = x.exp()\nh /= w ** 2\nreturn h.sum()", "h = x.exp()\nh = h / w ** 2\nreturn h.sum()"),
    ("h = x.exp()\nh **= -1\nreturn (h * w).sum()", "h = x.exp()\nh = h ** -1\nreturn (h * w).sum()"),
    (
        "h = x.exp()\nh *= (\n    w  # scale\n    + 1\n)\nreturn h.sum()",
        "h = x.exp()\nh = h * (\n    w  # scale\n    + 1\n)\nreturn h.sum()",
    ),
    (
        "h = x.exp()\nh *= w if w.dim() else 1\nreturn h.sum()",
        "h = x.exp()\nh = h * (w if w.dim() else 1)\nreturn h.sum()",
    ),
    ("h = x.exp()\nh[0] = 0.5\nreturn (h * w).sum()", "h = x.exp()\nh = h.clone()\nh[0] = 0.5\nreturn (h * w).sum()"),
    (
        "h = x.exp()\nh[:, 1:3] = w[:, :2]\nreturn h.sum()",
        "h = x.exp()\nh = h.clone()\nh[:, 1:3] = w[:, :2]\nreturn h.sum()",
    ),
    (
        "h = x.exp()\nh[..., 0] *= 3\nreturn (h * w).sum()",
        "h = x.exp()\nh = h.clone()\nh[..., 0] *= 3\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nh[h > 2.0] = 2.0\nreturn (h * w).sum()",
        "h = x.exp()\nh = h.masked_fill(h > 2.0, 2.0)\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nh[:, 0].mul_(2)\nreturn (h * w).sum()",
        "h = x.exp()\nh = h.clone()\nh[:, 0].mul_(2)\nreturn (h * w).sum()",
    ),
    (
        "h = x.tanh()\ny = F.relu(h, inplace=True)\nreturn (y * w).sum()",
        "h = x.tanh()\ny = F.relu(h)\nreturn (y * w).sum()",
    ),
    ("h = x.exp()\ntorch.mul(h, w, out=h)\nreturn h.sum()", "h = x.exp()\nh = torch.mul(h, w)\nreturn h.sum()"),
    (
        "h = x * w\nfor row in h:\n    row.mul_(2)\nreturn h.sum()",
        "h = x * w\nfor i in range(len(h)):\n    row = h[i]\n    row.mul_(2)\nreturn h.sum()",
    ),
    (
        "h = x * w\nfor j, row in enumerate(h):\n    row.mul_(j)\nreturn h.sum()",
        "h = x * w\nfor j in range(len(h)):\n    row = h[j]\n    row.mul_(j)\nreturn h.sum()",
    ),
    (
        "h = x * w\nfor column in h.unbind(1):\n    column.add_(1)\nreturn (h * h).sum()",
        "h = x * w\nfor i in range(h.size(1)):\n    column = h.select(1, i)\n    column.add_(1)\nreturn (h * h).sum()",
    ),
    (
        "h = x.mean(0, keepdim=True).expand(3, 4)\nh += w\nreturn (h * h).sum()",
        "h = x.mean(0, keepdim=True).expand(3, 4)\nh = h + w\nreturn (h * h).sum()",
    ),
    (
        "a, b = (x * w).chunk(2, 1)\na *= 3\nreturn (a * b).sum()",
        "a, b = (x * w).chunk(2, 1)\na = a * 3\nreturn (a * b).sum()",
    ),
    (
        "h = x * w\nparts = dict(zip('abc', h.unbind(0)))\nfor k in 'ab':\n    parts[k] += 1\n"
        "return parts['a'] @ parts['c']",
        "h = x * w\nparts = dict(zip('abc', h.unbind(0)))\nfor k in 'ab':\n    parts[k] = parts[k] + 1\n"
        "return parts['a'] @ parts['c']",
    ),
    (
        "h = x * w\nparts = list(h.unbind(0))\nparts[1] *= 2\nreturn parts[0] @ parts[1]",
        "h = x * w\nparts = list(h.unbind(0))\nparts[1] = parts[1] * 2\nreturn parts[0] @ parts[1]",
    ),
    ("y = x * 1\ny += w.sum()\nreturn (y * y).sum()", None),
    (
        "s = x * 1\ntotal = 0\nfor t in range(3):\n    total = total + (s * w).sum()\n    s += 1\nreturn total",
        "s = x * 1\ntotal = 0\nfor t in range(3):\n    total = total + (s * w).sum()\n    s = s + 1\nreturn total",
    ),
    (
        "h = x * 1\ny = h * w\nkeep = [h]\nh += 1\nreturn (y + keep[0]).sum()",
        "h = x * 1\ny = h.clone() * w\nkeep = [h]\nh += 1\nreturn (y + keep[0]).sum()",
    ),
    (
        "h = x * 1\nbase = h\ny = h * w\nh += 1\nreturn (y + base).sum()",
        "h = x * 1\nbase = h\ny = h.clone() * w\nh += 1\nreturn (y + base).sum()",
    ),
    (
        "h = x * 1\nv = h.view(-1)\ny = h * w\nh += 1\nreturn y.sum() + v.sum()",
        "h = x * 1\nv = h.view(-1)\ny = h.clone() * w\nh += 1\nreturn y.sum() + v.sum()",
    ),
    (
        "h = x * w\nwith torch.no_grad():\n    row = h[0]\nrow.mul_(3)\nreturn (h * h).sum()",
        "h = x * w\nrow = h[0]\nrow.mul_(3)\nreturn (h * h).sum()",
    ),
    (
        "h = torch.zeros(4, 4, dtype=torch.float64)\nh[0] = x[0]\n"
        "for t in range(3):\n    h[t + 1] = torch.sin(h[t]) * w[t]\nreturn h.sum()",
        "h = torch.zeros(4, 4, dtype=torch.float64)\nh[0] = x[0]\n"
        "for t in range(3):\n    h[t + 1] = torch.sin(h[t].clone()) * w[t]\nreturn h.sum()",
    ),
    ("h = x.exp()\nh **= 2\nreturn (h * w).sum()", "h = x.exp()\nh = h ** 2\nreturn (h * w).sum()"),
    ("h = x.exp()\nh @= w.T @ h\nreturn h.sum()", None),
    ("h = x.sigmoid()\nh %= 0.5\nreturn (h * w).sum()", "h = x.sigmoid()\nh = h % 0.5\nreturn (h * w).sum()"),
    (
        "h = x.tanh()\nF.leaky_relu(h, 0.2, True)\nreturn (h * w).sum()",
        "h = x.tanh()\nh = F.leaky_relu(h, 0.2)\nreturn (h * w).sum()",
    ),
    (
        "d = {'k': x.exp()}\nd['k'] *= w\nreturn d['k'].sum()",
        "d = {'k': x.exp()}\nd['k'] = d['k'] * w\nreturn d['k'].sum()",
    ),
    (
        "hs = [x.exp(), w.exp()]\nfor i in range(2):\n    hs[i] *= 0.5\nreturn hs[0].sum() + hs[1].sum()",
        "hs = [x.exp(), w.exp()]\nfor i in range(2):\n    hs[i] = hs[i] * 0.5\nreturn hs[0].sum() + hs[1].sum()",
    ),
    (
        "h = x.exp()\nh[(h > 2.0) & (h.log() < 1.05)] = float('-0.5')\nreturn (h * w).sum()",
        "h = x.exp()\nh = h.masked_fill((h > 2.0) & (h.log() < 1.05), float('-0.5'))\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nlarge = h > w\nh[large] = -2\nreturn (h * w).sum()",
        "h = x.exp()\nlarge = h > w\nh = h.masked_fill(large, -2)\nreturn (h * w).sum()",
    ),
    (
        "h = x * w\nrows = h > 0.5\nh = h.cumsum(0)\ny = h.sin()\nh[rows] = 0\nreturn (y * h).sum()",
        "h = x * w\nrows = h > 0.5\nh = h.cumsum(0)\ny = h.sin()\nh = h.clone()\nh[rows] = 0\nreturn (y * h).sum()",
    ),
    (
        "h = x.exp()\nrows = x[:, 0] > 0.5\nh[rows] = 0.5\nreturn (h * w).sum()",
        "h = x.exp()\nrows = x[:, 0] > 0.5\nh = h.clone()\nh[rows] = 0.5\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nh[h > 2] = w[h > 2] * 2 - h[h > 2]\nreturn (h * w).sum()",
        "h = x.exp()\nh = torch.where(h > 2, w * 2 - h, h)\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nh[h > 2] = -(w[h > 2] + 1) / 2\nreturn (h * w).sum()",
        "h = x.exp()\nh = torch.where(h > 2, -(w + 1) / 2, h)\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nh[h > 2] *= 0.1\nh[h < 0.5] -= w[h < 0.5] + 1\nreturn (h * h).sum()",
        "h = x.exp()\nh = torch.where(h > 2, h * 0.1, h)\nh[h < 0.5] -= w[h < 0.5] + 1\nreturn (h * h).sum()",
    ),
    (
        "h = x.exp() - 2\ny = h.sin()\nh[h > 0] = torch.sqrt(h[h > 0])\nreturn (y * w + h).sum()",
        "h = x.exp() - 2\ny = h.sin()\nh = h.clone()\nh[h > 0] = torch.sqrt(h[h > 0])\nreturn (y * w + h).sum()",
    ),
    (
        "h = x.exp()\nlast = torch.tensor([2, 0])\nh[last] = torch.sin(w[:2])\nreturn (h * w).sum()",
        "h = x.exp()\nlast = torch.tensor([2, 0])\nh = h.index_put((last,), torch.sin(w[:2]))\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nh[torch.tensor([0, 2])] = w[0].exp()\nreturn (h * w).sum()",
        "h = x.exp()\nh = h.index_put((torch.tensor([0, 2]),), w[0].exp())\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nlast = torch.tensor([2, 0])\nh[last] = 0.5\nreturn (h * w).sum()",
        "h = x.exp()\nlast = torch.tensor([2, 0])\nh = h.clone()\nh[last] = 0.5\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nif w.dim(): h[0] = w[1]\nreturn (h * w).sum()",
        "h = x.exp()\nif w.dim(): h = h.clone(); h[0] = w[1]\nreturn (h * w).sum()",
    ),
    (
        "h = x.exp()\nh[0], h[1] = h[1] * 2, h[0] * w[0]\nreturn (h * w).sum()",
        "h = x.exp().clone()\nh[0], h[1] = h[1] * 2, h[0].clone() * w[0]\nreturn (h * w).sum()",
    ),
    ("h = x.exp()\nh.data.mul_(2)\nreturn (h * w).sum()", "h = x.exp()\nh = h.mul(2)\nreturn (h * w).sum()"),
    ("h = x.exp()\nh.data.add_(2)\nreturn (h * w).sum()", "h = x.exp().clone()\nh.data.add_(2)\nreturn (h * w).sum()"),
    (
        "h = x.exp()\nh.data[1] *= 2\nreturn (h * w).sum()",
        "h = x.exp()\nh = h.clone()\nh[1] *= 2\nreturn (h * w).sum()",
    ),
]


def program(body: str) -> str:
    return HEAD + textwrap.indent(body, "    ") + "\n" + TAIL


def gradients(source: str) -> tuple[float, list[torch.Tensor]]:
    names: dict[str, object] = {}
    exec(source, names)
    leaves = [names["x"], names["w"]]
    return names["loss"].item(), [torch.zeros_like(p) if p.grad is None else p.grad for p in leaves]


def differences(source: str, step: float = 1e-6) -> tuple[float, list[torch.Tensor]]:
    """Central differences of the function as it stands, run without autograd."""
    names: dict[str, object] = {}
    exec(source.replace("loss.backward()\n", "").replace("loss = f(x, w)\n", ""), names)
    function, leaves = names["f"], [names["x"].detach(), names["w"].detach()]
    with torch.no_grad():
        value = function(*(p.clone() for p in leaves)).item()
        found = []
        for index, leaf in enumerate(leaves):
            slope = torch.zeros_like(leaf)
            for i in range(leaf.numel()):
                ends = []
                for sign in (1, -1):
                    moved = [p.clone() for p in leaves]
                    moved[index].view(-1)[i] += sign * step
                    ends.append(function(*moved).item())
                slope.view(-1)[i] = (ends[0] - ends[1]) / (2 * step)
            found.append(slope)
    return value, found


@pytest.mark.parametrize(("before", "after"), FORMS)
def test_form(fixed, before, after):
    source = program(before)
    text = fixed(source)
    assert text == (source if after is None else program(after))
    assert fixed(text) == text, "a second repair changes nothing"


@pytest.mark.parametrize("before", [before for before, _ in FORMS if ".expand(" not in before])
def test_gradient(fixed, before):
    source = program(before)
    value, expected = differences(source)
    loss, actual = gradients(fixed(source))
    assert loss == pytest.approx(value, rel=1e-9)
    for one, other in zip(actual, expected, strict=True):
        # what is written through .data has no gradient of its own: only its value counts
        if ".data" not in before:
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
