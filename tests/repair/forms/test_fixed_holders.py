"""Tensors in objects that Python does not let anybody change: a repair must not assign to them.

The judge is numerical differentiation of the original forward.
"""

import pytest
from differences import verdict

from outplace.repair.drive.from_source import repair
from outplace.source.analysis import check_file
from outplace.source.project import Project

HEAD = """
import torch
from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

x = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64, requires_grad=True)
leaves = [x]
"""
HOLDERS = {
    "a class of named tuples": "class Out(NamedTuple):\n    y: torch.Tensor\nout = Out(x.exp())\n",
    "a function of named tuples": "Out = namedtuple('Out', 'y')\nout = Out(x.exp())\n",
    "a frozen dataclass": "@dataclass(frozen=True)\nclass Out:\n    y: torch.Tensor\nout = Out(x.exp())\n",
    "a property": "class Out:\n    @property\n    def y(self):\n        return kept\nkept = x.exp()\nout = Out()\n",
}
WRITES = {"a part": "[0] = 0.5", "all of it": ".mul_(2)"}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_an_attribute_that_cannot_be_set(holder, write):
    assert _verdict(HEAD + HOLDERS[holder] + _written("out.y", WRITES[write])) == "mended"


@pytest.mark.parametrize("write", WRITES)
def test_an_item_of_a_tuple(write):
    assert _verdict(HEAD + "out = (x.exp(), 3)\n" + _written("out[0]", WRITES[write])) == "mended"


@pytest.mark.parametrize("write", WRITES)
def test_a_field_that_torch_returns(write):
    made = "out = torch.stack([x.exp(), x]).max(0)\n"
    assert _verdict(HEAD + made + _written("out.values", WRITES[write])) == "mended"


def test_a_plain_dataclass_may_be_changed():
    head = HEAD + "@dataclass\nclass Out:\n    y: torch.Tensor\nout = Out(x.exp())\n"
    program = head + _written("out.y", ".mul_(2)")
    assert _verdict(program) == "mended"
    assert "out.y = out.y.mul(2)" in _repaired(program)


def _written(tensor: str, write: str) -> str:
    return f"a = ({tensor} * {tensor}).sum()\n{tensor}{write}\nloss = a + {tensor}.sum()\nloss.backward()\n"


def _repaired(program: str) -> str:
    return repair("p.py", program, lambda path, text: check_file(path, text, Project()).findings, lambda _: True).text


def _verdict(program: str) -> str:
    return verdict(program, _repaired(program))
