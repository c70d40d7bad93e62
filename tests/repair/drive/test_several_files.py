"""Bugs that lie in another file than the program: the right file is edited, and the right place in it."""

from __future__ import annotations

import textwrap

import pytest
from click.testing import CliRunner

from outplace.cli.fix import fix

PROGRAM = """
import torch
import ops

layer = torch.nn.Linear(3, 3)
h = torch.sigmoid(layer(torch.ones(2, 3)))
{call}
loss = {used}.sum()
loss.backward()
"""
SCALE = "def scale(t):\n    t *= 2\n    return t\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Writes files, fixes these paths of them, and gives the new texts of those that changed."""
    monkeypatch.chdir(tmp_path)

    def fixed(files: dict[str, str], *paths: str) -> dict[str, str]:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text))
        result = CliRunner().invoke(fix, [*(paths or ["."]), "--isolated"])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        texts = {name: (tmp_path / name).read_text() for name in files}
        return {name: text for name, text in texts.items() if text != textwrap.dedent(files[name])}

    return fixed


def test_the_callee_makes_a_new_tensor_where_only_its_result_is_used(project):
    files = {"main.py": PROGRAM.format(call="y = ops.scale(h)", used="y"), "ops.py": SCALE}
    assert project(files) == {"ops.py": SCALE.replace("t *= 2", "t = t * 2")}


def test_the_caller_keeps_a_copy_where_the_write_is_meant_to_be_seen(project):
    files = {"main.py": PROGRAM.format(call="ops.scale(h)", used="h"), "ops.py": SCALE}
    changed = project(files)
    assert list(changed) == ["main.py"]
    assert "h = torch.sigmoid(layer(torch.ones(2, 3))).clone()\nops.scale(h)\n" in changed["main.py"]


def test_another_caller_relies_on_the_write(project):
    files = {
        "main.py": PROGRAM.format(call="y = ops.scale(h)", used="y"),
        "ops.py": SCALE,
        "other.py": "from ops import scale\n\n\ndef double(state):\n    scale(state)\n    return state\n",
    }
    assert list(project(files)) == ["main.py"], "a new tensor would not be seen by the other caller"


def test_only_the_files_that_were_given_are_changed(project):
    files = {"main.py": PROGRAM.format(call="y = ops.scale(h)", used="y"), "ops.py": SCALE}
    assert "ops.py" not in project(files, "main.py")


def test_a_diff_shows_the_other_file(project):
    files = {"main.py": PROGRAM.format(call="y = ops.scale(h)", used="y"), "ops.py": SCALE}
    assert project(files, ".", "--diff") == {}
    shown = CliRunner().invoke(fix, ["--diff", "--isolated"]).output
    assert "+++ b/ops.py" in shown and "+    t = t * 2\n" in shown and "main.py" not in shown


def test_a_comment_in_the_other_file_is_heeded(project):
    noted = SCALE.replace("t *= 2", "t *= 2  # noqa: OUT201")
    files = {"main.py": PROGRAM.format(call="y = ops.scale(h)", used="y"), "ops.py": noted}
    assert project(files) == {}


def test_a_module_of_a_package(project):
    files = {
        "main.py": """
            import torch
            from pkg.net import Net

            Net()(torch.ones(2, 3)).sum().backward()
            """,
        "pkg/__init__.py": "",
        "pkg/layers.py": """
            import torch
            from torch import nn


            class Gate(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.act = nn.ReLU(inplace=True)

                def forward(self, x):
                    return self.act(torch.sigmoid(x)) * x
            """,
        "pkg/net.py": """
            from torch import nn

            from .layers import Gate


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(3, 3)
                    self.gate = Gate()

                def forward(self, x):
                    return self.gate(self.fc(x))
            """,
    }
    changed = project(files)
    assert list(changed) == ["pkg/layers.py"]
    assert "self.act = nn.ReLU()\n" in changed["pkg/layers.py"]


def test_a_flag_in_a_function_that_builds(project):
    files = {
        "main.py": """
            import torch
            from blocks import block

            layer = torch.nn.Linear(3, 3)
            act = block()
            h = torch.sigmoid(layer(torch.ones(2, 3)))
            act(h).sum().backward()
            """,
        "blocks.py": "from torch import nn\n\n\ndef block():\n    return nn.Sequential(nn.ReLU(True), nn.Tanh())\n",
    }
    assert project(files) == {"blocks.py": files["blocks.py"].replace("nn.ReLU(True)", "nn.ReLU()")}


def test_initialisation_in_another_file(project):
    files = {
        "main.py": """
            import torch
            from inits import init

            net = torch.nn.Linear(3, 1)
            init(net)
            net(torch.ones(2, 3)).sum().backward()
            """,
        "inits.py": "def init(m):\n    m.weight.fill_(0.1)\n    m.bias[0] = 0.5\n",
    }
    text = (
        "import torch\ndef init(m):\n    with torch.no_grad():\n        m.weight.fill_(0.1)\n        m.bias[0] = 0.5\n"
    )
    assert project(files) == {"inits.py": text}


HELD = """
import torch
import losses

layer = torch.nn.Linear(3, 3)
h = layer(torch.ones(2, 3))
kept = [h]
e = losses.energy(h)
h += 1
loss = e + kept[0].sum()
loss.backward()
"""


def test_a_function_that_keeps_its_argument_is_given_a_copy(project):
    files = {"main.py": HELD, "losses.py": "def energy(t):\n    return (t * t).sum()\n"}
    assert project(files) == {"main.py": HELD.replace("energy(h)", "energy(h.clone())")}


def test_not_a_function_that_writes_it_too(project):
    files = {"main.py": HELD, "losses.py": "def energy(t):\n    t += 1\n    return (t * t).sum()\n"}
    assert "h.clone()" not in project(files).get("main.py", "")


def test_a_second_time_there_is_nothing_to_do(project):
    files = {"main.py": PROGRAM.format(call="y = ops.scale(h)", used="y"), "ops.py": SCALE}
    changed = project(files)
    assert project({**files, **changed}) == {}
