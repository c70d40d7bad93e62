# kind: saved, tensor: self.value
import torch


class Score:
    def __init__(self, value):
        self.value = value

    def __iadd__(self, other):
        self.value.add_(other)  # overwrites
        return self


torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
score = Score(w.exp())  # saves
score += 2.0
score.value.log().sum().backward()
