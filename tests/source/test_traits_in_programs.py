"""Programs whose outcome hangs on one fact about one operation: check and PyTorch itself must agree on each.

Each pair is a program that PyTorch refuses and its legal twin. Hand-written lists of operations disagreed about these.
"""

from __future__ import annotations

import pytest

from outplace.source.analysis import check_file
from outplace.source.project import Project

torch = pytest.importorskip("torch")

PRELUDE = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport numpy as np\n"
REFUSED = {
    "expanded memory is written": "torch.zeros(1, 3, 1).expand(2, 3, 4).add_(1)",
    "a view of expanded memory is written": "torch.zeros(1, 3).expand(4, 3).unsqueeze(0).add_(1)",
    "floats do not fit into integers": "torch.arange(3).exp_()",
    "a quotient does not fit into integers": "torch.arange(3).div_(2)",
    "integers do not fit into flags": "(torch.rand(3) > 0.5).add_(1)",
    "scatter_reduce_ reads what it writes": """
x = torch.rand(4, 4)
x.scatter_reduce_(0, torch.arange(4).expand(4, 4), x, "sum")
""",
    "a deviation over two dimensions has one of them left": """
x = torch.zeros(2, 3)
x.add_(torch.rand(4, 3).std(1, True))
""",
}
LEGAL = {
    "nn.Flatten copies expanded memory": "nn.Flatten()(torch.zeros(1, 3, 1).expand(2, 3, 4)).add_(1)",
    "as_strided_ writes nothing": "torch.zeros(1, 3).expand(4, 3).as_strided_((3,), (1,))",
    "tril_ writes one row of expanded memory": "torch.zeros(1, 3).expand(3, 3).tril_()",
    "floats fit into floats": "torch.rand(3).exp_()",
    "a rounded quotient fits into integers": 'torch.arange(3).div_(2, rounding_mode="floor")',
    "flags fit into flags": "(torch.rand(3) > 0.5).logical_not_()",
    "scatter_reduce_ reads a copy": """
x = torch.rand(4, 4)
x.scatter_reduce_(0, torch.arange(4).expand(4, 4), x.clone(), "sum")
""",
    "an unbiased deviation keeps no dimension": """
x = torch.zeros(2, 4)
x.add_(torch.rand(4, 3).std(1, True))
""",
    "a mask that is larger makes a larger tensor": """
x = torch.zeros(2, 3, 4)
x.add_(torch.rand(3, 1).masked_fill(torch.ones(3, 4, dtype=torch.bool), 0.0))
""",
}


def outcome(source):
    """What PyTorch says."""
    try:
        exec(PRELUDE + source, {})
    except RuntimeError:
        return "refused"
    return "legal"


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_found(name):
    assert outcome(REFUSED[name]) == "refused"
    found = check_file("program.py", PRELUDE + REFUSED[name], Project()).findings
    assert [finding.severity for finding in found] == ["error"]


@pytest.mark.parametrize("name", LEGAL)
def test_legal_twins_are_left_alone(name):
    assert outcome(LEGAL[name]) == "legal"
    assert not check_file("program.py", PRELUDE + LEGAL[name], Project()).findings
