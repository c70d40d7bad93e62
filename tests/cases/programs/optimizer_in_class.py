# kind: stepped
import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)

    def compute(self, x):
        return self.model(x).mean()  # saves

    def apply(self, loss):
        loss.backward(retain_graph=True)
        self._advance()

    def _advance(self):
        self.opt.step()  # overwrites
        self.opt.zero_grad()


torch.manual_seed(0)
trainer = Trainer(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)), 0.1)
loss = trainer.compute(torch.randn(3, 2))
for _ in range(2):
    trainer.apply(loss)
