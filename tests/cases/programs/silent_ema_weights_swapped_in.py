# kind: silent-data
import torch
from torch import nn

torch.manual_seed(0)


class Averaged:
    def __init__(self, model):
        self.model = model
        self.shadow = [parameter.detach().clone() * 0.5 for parameter in model.parameters()]

    def swap(self):
        for parameter, shadow in zip(self.model.parameters(), self.shadow):
            kept = parameter.data.clone()
            parameter.data.copy_(shadow)  # overwrites
            shadow.copy_(kept)


model = nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 1))
averaged = Averaged(model)
x, y = torch.randn(8, 4), torch.randn(8, 1)
prediction = model(x)  # saves
averaged.swap()
with torch.no_grad():
    score = (model(x) - y).square().mean()
loss = (prediction - y).square().mean()
loss.backward()
print("RESULT", score.item(), loss.item(), model[0].weight.grad.norm().item())
