"""Which expression of a statement is underlined for a node that was made somewhere in it."""

from __future__ import annotations

import ast

import pytest

from outplace.runtime.locate import sites
from outplace.runtime.locate.node_expressions import narrow_to_maker

CASES = [
    ("y = a.exp() * b.sin()", "ExpBackward0", "a.exp()"),
    ("y = x.square().sum()", "PowBackward0", "x.square()"),
    ("y = (w * 2).norm()", "LinalgVectorNormBackward0", "(w * 2).norm()"),
    ("loss = F.cross_entropy(net(x), labels)", "NllLossBackward0", "F.cross_entropy(net(x), labels)"),
    ("loss = F.cross_entropy(net(x), labels)", "AddmmBackward0", "net(x)"),
    ("loss = F.cross_entropy(net(x), labels)", "LogSoftmaxBackward0", "F.cross_entropy(net(x), labels)"),
    ("h = torch.tanh(f(z) + x)", "AddmmBackward0", "f(z)"),
    ("loss = net(torch.randn(4, 3)).pow(2).mean(0)", "AddmmBackward0", "net(torch.randn(4, 3))"),
    ("d = self.a(x).chunk(2, dim=1)", "ConvolutionBackward0", "self.a(x)"),
    ("real, fake = D(one), D(two)", "AddmmBackward0", "D(one), D(two)"),
    ("y = k - a * b * c", "MulBackward0", "a * b * c"),
    ("y = self.act(self.norm(x)) + 1", "SigmoidBackward0", "self.act(self.norm(x))"),
    ("h *= gate(x)", "MulBackward0", "h *= gate(x)"),
    ("for x in net(batch): y = x.exp()", "AddmmBackward0", "net(batch)"),
]


def located(tmp_path, source, part=None):
    """The statement, or the call in it that a function has just returned from."""
    program = tmp_path / "program.py"
    program.write_text(source + "\n")
    statement = sites.source_tree(str(program)).tree.body[0]
    inner = [node for node in ast.walk(statement) if part and ast.unparse(node) == part]
    node = inner[0] if inner else statement
    return sites.Located(sites.site_of(str(program), node, "<module>"), str(program), node, statement)


@pytest.mark.parametrize(("source", "node", "underlined"), CASES, ids=lambda value: str(value)[:30])
def test_the_expression_that_made_the_node(tmp_path, source, node, underlined):
    assert narrow_to_maker(located(tmp_path, source), node).site.text == underlined


@pytest.mark.parametrize(
    ("source", "call", "node", "underlined"),
    [
        ("y = f(x) @ w", "f(x)", "MmBackward0", "f(x) @ w"),
        ("y = 1 + (f(x) + a @ w)", "f(x)", "MmBackward0", "f(x) + a @ w"),
        ("y = net(x) @ w", "net(x)", "AddmmBackward0", "net(x)"),
    ],
)
def test_what_comes_after_a_function_has_returned(tmp_path, source, call, node, underlined):
    assert narrow_to_maker(located(tmp_path, source, call), node).site.text == underlined
