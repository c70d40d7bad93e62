# kind: silent-alias
import torch
from torch import nn

torch.manual_seed(0)


class Probe:
    def __init__(self, tensor):
        self.values = tensor.detach().numpy()

    def percent(self):
        self.values *= 100  # overwrites
        return self.values.max()


x = torch.randn(3, 4, requires_grad=True)
probabilities = torch.softmax(x, 1)  # saves
loss = (probabilities * torch.arange(4.0)).sum()
print("most", float(Probe(probabilities).percent()) > 0)
loss.backward()
print("RESULT", x.grad.norm().item())
