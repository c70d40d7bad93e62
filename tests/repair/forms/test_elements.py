"""Elements of lists and dicts, and attributes: whoever else holds the tensor sees a write of it after a repair, too."""

from __future__ import annotations

import textwrap

import pytest
from differences import verdict

HEAD = """import torch

x = torch.linspace(0.2, 1.3, 4, dtype=torch.float64).requires_grad_()
leaves = [x]


class Box:
    pass


def last(items):
    return items[-1]


"""


@pytest.mark.parametrize(
    "body",
    [
        "v = x.exp()\nouts = [v]\nouts[0] *= 2",
        "outs = [x.exp(), x.sin()]\nv = outs[0]\nfor i in range(2):\n    outs[i] *= 2",
        "outs = [x.exp(), x.sin()]\nv, other = outs\nouts[0] *= 2",
        "outs = [x.exp(), x.sin()]\nkept = []\nfor out in outs:\n    kept.append(out)\nouts[0] *= 2\nv = kept[0]",
        "outs = [x.exp(), x.sin()]\nkept = list(outs)\nouts[0] *= 2\nv = kept[0]",
        "outs = [x.exp()]\nv = last(outs)\nouts[0] *= 2",
        "outs = [x.exp()]\nv = outs[0].view(-1)\nouts[0] *= 2",
        "outs = []\nv = x.exp()\nouts.append(v)\nouts[0] *= 2",
        "one = x.exp()\nouts = [one, one]\nouts[0] *= 2\nv = outs[1]",
        "outs = {'a': x.exp()}\nv = outs.get('a')\nouts['a'] *= 2",
        "outs = {'a': x.exp()}\nvalues = list(outs.values())\nouts['a'] *= 2\nv = values[0]",
        "box = Box()\nother = box\nbox.h = x.exp()\nv = other.h\nbox.h *= 2\nouts = [box.h]",
    ],
)
def test_others_see_the_write(fixed, body):
    given = "outs[0]" if "outs = {" not in body else "outs['a']"
    whole = textwrap.indent(f"{body}\nreturn v.sum() + {given}.sum()\n", "    ")
    source = f"{HEAD}def f(x):\n{whole}\n\nloss = f(x)\nloss.backward()\n"
    assert verdict(source, fixed(source)).startswith("mended")


def test_an_element_that_nobody_else_has_is_replaced(fixed):
    source = """
    import torch

    x = torch.ones(3, requires_grad=True)


    def f(x):
        outs = [t.exp() for t in (x, x)]
        for i in range(2):
            outs[i] *= 2
        return outs[0].sum() + outs[1].sum()


    f(x).backward()
    """
    assert "outs[i] = outs[i] * 2" in fixed(source)
