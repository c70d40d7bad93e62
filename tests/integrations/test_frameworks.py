"""Programs of Lightning and of the Hugging Face Trainer: the lines that are named are the user's own."""

from __future__ import annotations

import json

import pytest

from side_by_side import outplace_forked, write

pytest.importorskip("torch")

LIGHTNING = """
    import lightning as L
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset


    class Model(L.LightningModule):
        def __init__(self, fails):
            super().__init__()
            self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
            self.fails = fails

        def forward(self, x):
            h = torch.tanh(self.layer(x))
            if self.fails:
                h *= 2
            return self.head(h)

        def training_step(self, batch, index):
            return self(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())


    class Stepped(Model):
        def __init__(self):
            super().__init__(fails=False)
            self.automatic_optimization = False

        def training_step(self, batch, index):
            optimizer = self.optimizers()
            first = self(batch[0]).square().mean()
            second = self(batch[0]).square().sum()
            self.manual_backward(first)
            optimizer.step()
            self.manual_backward(second)


    def fit(model):
        data = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=4)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        L.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet).fit(model, data)


    fit(Model(fails=False))
    print("trained")
    try:
        fit(Stepped())
    except RuntimeError:
        print("stepped")
    fit(Model(fails=True))
    """

TRAINER = """
    import torch
    from torch import nn
    from transformers import Trainer, TrainingArguments


    class Model(nn.Module):
        def __init__(self, fails):
            super().__init__()
            self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
            self.fails = fails

        def forward(self, x, labels):
            h = self.layer(x).sigmoid()
            if self.fails:
                h.add_(1)
            return {"loss": (self.head(h).squeeze(-1) - labels).square().mean()}


    def train(model):
        data = [{"x": torch.ones(4), "labels": torch.tensor(1.0)}] * 8
        quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
        arguments = TrainingArguments("out", max_steps=2, per_device_train_batch_size=4, use_cpu=True, **quiet)
        Trainer(model=model, args=arguments, train_dataset=data).train()


    train(Model(fails=False))
    train(Model(fails=True))
    """


def run(folder, program):
    write(folder, "train.py", program)
    ending = outplace_forked(folder, "run", "--json", "report.json", "train.py")
    return ending, json.loads((folder / "report.json").read_text())["diagnoses"]


def places(diagnosis):
    sites = diagnosis["saved_by"]["site"], diagnosis["mutations"][0]["site"], diagnosis["raised_at"]
    assert {site["file"] for site in sites} == {"train.py"}
    return diagnosis["kind"], *(site["text"] for site in sites)


def test_lightning(tmp_path):
    pytest.importorskip("lightning")
    ending, diagnoses = run(tmp_path, LIGHTNING)
    assert ending.code == 1
    assert [line for line in ending.stdout.split() if line in (b"trained", b"stepped")] == [b"trained", b"stepped"]
    fit = 'L.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet).fit(model, data)'
    assert [places(diagnosis) for diagnosis in diagnoses] == [
        ("stepped", "self.head(h)", "optimizer.step()", "self.manual_backward(second)"),
        ("saved", "torch.tanh(self.layer(x))", "h *= 2", fit),
    ]


def test_hugging_face_trainer(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    ending, diagnoses = run(tmp_path, TRAINER)
    assert ending.code == 1
    train = "Trainer(model=model, args=arguments, train_dataset=data).train()"
    assert [places(diagnosis) for diagnosis in diagnoses] == [
        ("saved", "self.layer(x).sigmoid()", "h.add_(1)", train),
    ]
