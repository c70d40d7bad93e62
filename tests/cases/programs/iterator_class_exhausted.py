# kind: saved, tensor: weights
"""The iterator ends by raising: what the consuming statement does after that is on its own line again."""
import torch


class Chunks:
    def __init__(self, x, size):
        self.x, self.size, self.start = x, size, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.start >= len(self.x):
            raise StopIteration
        self.start += self.size
        return self.x[self.start - self.size : self.start] * 2


torch.manual_seed(0)
x = torch.randn(6, requires_grad=True)
weights = torch.stack(list(Chunks(x, 2))).exp()  # saves
weights /= weights.detach().sum()  # overwrites
weights.sum().backward()
