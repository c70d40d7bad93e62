"""Code that a training framework calls. The frameworks are not installed: small stand-ins run the programs.

Each program comes with a write that breaks the backward, and with a legal twin. PyTorch must refuse the first and
accept the second. `check` must report the first as an error, on the line that writes, and say nothing of the second.
"""

import sys
import textwrap
from functools import partial
from itertools import pairwise
from types import ModuleType

import pytest
import torch
from torch import nn

from outplace.source.analysis import check_file
from outplace.source.project import Project


class LightningModule(nn.Module):
    """As Lightning's, as far as these programs go."""

    automatic_optimization = True

    def optimizers(self):
        made = self.configure_optimizers()
        return made[0] if isinstance(made, list | tuple) and len(made) == 1 else made

    def manual_backward(self, loss):
        loss.backward()


class LightningTrainer:
    """Fits a LightningModule."""

    def __init__(self, **_options):
        pass

    def fit(self, model, batches):
        for number, batch in enumerate(batches):
            loss = model.training_step(batch, number)
            if model.automatic_optimization:
                optimizer = model.optimizers()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


class Trainer:
    """As that of transformers: derived classes compute the loss."""

    def __init__(self, model=None, train_dataset=None):
        self.model, self.train_dataset = model, train_dataset

    def train(self):
        for batch in self.train_dataset:
            self.compute_loss(self.model, batch).backward()


class Accelerator:
    """Wraps nothing here."""

    def prepare(self, *given):
        return given

    def backward(self, loss):
        loss.backward()


class MessagePassing(nn.Module):
    """Sends messages along edges, and adds them up."""

    def propagate(self, edge_index, x):
        messages = self.message(x[edge_index[1]], x[edge_index[0]])
        return torch.zeros_like(x).index_add(0, edge_index[1], messages)


def odeint(f, y, t, **_options):
    for before, after in pairwise(t):
        y = y + (after - before) * f(before, y)
    return y


STAND_INS = {
    "pytorch_lightning": {"LightningModule": LightningModule, "Trainer": LightningTrainer},
    "transformers": {"Trainer": Trainer},
    "accelerate": {"Accelerator": Accelerator},
    "torch_geometric.nn": {"MessagePassing": MessagePassing},
    "torch_geometric": {},
    "torchdiffeq": {"odeint": odeint},
}

PROGRAMS = {
    "a step that Lightning calls": (
        """
        import pytorch_lightning as pl

        class Net(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def training_step(self, batch, batch_idx):
                scores = self.layer(batch).softmax(-1)
                total = (scores * scores).sum()
                {write}
                return total + scores.mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        pl.Trainer(max_epochs=1).fit(Net(), [torch.randn(3, 4)])
        """,
        "scores -= 0.5  # here",
        "scores = scores - 0.5",
    ),
    "optimizers that the step itself runs": (
        """
        import pytorch_lightning as pl

        class Net(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False
                self.one = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
                self.two = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

            def training_step(self, batch, batch_idx):
                first, second = self.optimizers()
                fake = self.one(batch)
                fooled = self.two(fake).mean()
                right = self.two(batch).mean() - self.two(fake.detach()).mean()
                {write}
                first.zero_grad()
                self.manual_backward(fooled)
                first.step()

            def configure_optimizers(self):
                first = torch.optim.SGD(self.one.parameters(), lr=0.1)
                return first, torch.optim.SGD(self.two.parameters(), lr=0.1)

        pl.Trainer().fit(Net(), [torch.randn(3, 4)])
        """,
        "self.manual_backward(right); second.step()  # here",
        "self.manual_backward(right, )",
    ),
    "the loss of a Trainer": (
        """
        from transformers import Trainer

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                return {{"logits": self.layer(x)}}

        class Mine(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                labels = inputs.pop("labels")
                log_probs = torch.log_softmax(model(**inputs)["logits"], dim=-1)
                {write}
                return -log_probs.gather(-1, labels.clamp(min=0)).mean()

        batch = {{"x": torch.randn(2, 4), "labels": torch.tensor([[0], [-1]])}}
        Mine(model=Net(), train_dataset=[batch]).train()
        """,
        "log_probs[labels[:, 0] < 0] = 0  # here",
        "log_probs = log_probs.masked_fill(labels < 0, 0)",
    ),
    "a backward by Accelerate": (
        """
        from accelerate import Accelerator

        accelerator = Accelerator()
        model = nn.Linear(4, 4)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x in torch.randn(2, 3, 4):
            optimizer.zero_grad()
            y = model(x).exp()
            {write}
            accelerator.backward(y.mean())
            optimizer.step()
        """,
        "y += 1  # here",
        "y = y + 1",
    ),
    "messages along edges": (
        """
        from torch_geometric.nn import MessagePassing

        class Conv(MessagePassing):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x, edge_index):
                return self.propagate(edge_index, x=self.layer(x))

            def message(self, x_i, x_j):
                weight = torch.sigmoid(x_i * x_j)
                {write}
                return weight * x_j

        Conv()(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]])).sum().backward()
        """,
        "weight[:, 0] = 0  # here",
        "weight = weight * 2",
    ),
    "the right-hand side of an equation": (
        """
        from torchdiffeq import odeint

        layer = nn.Linear(4, 4)

        def slope(t, y):
            v = torch.tanh(layer(y))
            {write}
            return v

        odeint(slope, torch.randn(3, 4), torch.linspace(0, 1, 3)).sum().backward()
        """,
        "v *= 0.5  # here",
        "v = v * 0.5",
    ),
}


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    """The frameworks, as programs import them."""
    for name, members in STAND_INS.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


def _program(name: str, write: str) -> str:
    return "import torch\nfrom torch import nn\n" + textwrap.dedent(PROGRAMS[name][0]).format(write=write)


def _raises(program: str) -> bool:
    torch.manual_seed(0)
    try:
        exec(compile(program, "program.py", "exec"), {"__name__": "program"})
    except RuntimeError as error:
        assert "inplace operation" in str(error)
        return True
    return False


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_framework_calls_is_checked(name):
    program = _program(name, PROGRAMS[name][1])
    assert _raises(program)
    found = check_file("program.py", program, Project()).findings
    assert [(item.severity, item.site.line) for item in found] == [("error", _line_of(program, "# here"))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_legal_twin_is_not_reported(name):
    program = _program(name, PROGRAMS[name][2])
    assert not _raises(program)
    assert check_file("program.py", program, Project()).findings == []


def _line_of(program: str, text: str) -> int:
    return next(number for number, line in enumerate(program.splitlines(), 1) if text in line)


def test_without_a_program_the_step_is_checked_under_a_hypothesis():
    program = _program("the loss of a Trainer", PROGRAMS["the loss of a Trainer"][1])
    library = program[: program.index("batch = ")]
    found = check_file("program.py", library, Project()).findings
    assert [item.site.line for item in found] == [_line_of(library, "# here")]


def test_an_unknown_call_keeps_the_hypothesis_alive():
    """The program runs `weigh`, but its tensor goes through a function that is not known."""
    program = textwrap.dedent(
        """
        import torch
        from elsewhere import normalise

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 4)

            def forward(self, x):
                weight = normalise(self.layer(x))
                y = weight * x
                weight[0] = 0
                return y + weight

        Net()(torch.randn(3, 4)).sum().backward()
        """
    )
    module = ModuleType("elsewhere")
    module.normalise = partial(torch.softmax, dim=-1)
    sys.modules["elsewhere"] = module
    try:
        assert _raises(program)
    finally:
        del sys.modules["elsewhere"]
    found = check_file("program.py", program, Project()).findings
    assert [(item.severity, item.site.line) for item in found] == [("warning", _line_of(program, "weight[0]"))]
