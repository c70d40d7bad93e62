# kind: stepped
import torch
from torch import nn


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(6, 4), nn.Linear(5, 4)
        self.scale = nn.Parameter(torch.tensor(5.0))

    def forward(self, images, texts):
        a = nn.functional.normalize(self.image(images), dim=-1)
        b = nn.functional.normalize(self.text(texts), dim=-1)
        return self.scale * (a @ b.t())  # saves


def step(model, optimizer, images, texts):
    logits = model(images, texts)
    labels = torch.arange(len(images))
    loss = (nn.functional.cross_entropy(logits, labels) + nn.functional.cross_entropy(logits.t(), labels)) / 2
    optimizer.zero_grad()
    with torch.no_grad():
        model.scale.clamp_(0, 4.0)  # overwrites
    loss.backward()
    optimizer.step()
    return loss


torch.manual_seed(0)
model = Clip()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = step(model, optimizer, torch.randn(4, 6), torch.randn(4, 5))
