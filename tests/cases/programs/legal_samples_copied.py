# kind: legal
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Normalise:
    def __call__(self, sample):
        x = sample["x"].clone()
        if torch.rand(()) < 0.5:
            x += 0.1
        x -= 1.0
        for _ in range(2):
            x[:2] *= 0.5
        sample["x"].clamp_(-3, 3)
        return {**sample, "x": x}


class Kept(Dataset):
    def __init__(self, samples, transform):
        self.samples, self.transform = samples, transform
        self.noise, self.seen = torch.empty(4), torch.zeros(len(samples))
        self.table = torch.stack([sample["x"] for sample in samples])

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        sample = self.transform(self.samples[index])
        if not self.seen[index]:
            self.table[index] *= 0.5
        self.seen[index] += 1
        self.noise.normal_().mul_(0.1)
        copied = sample["x"].clone()
        copied *= 2
        return copied + self.noise, sample["y"]


torch.manual_seed(0)
samples = [{"x": torch.randn(4), "y": torch.randn(1)} for _ in range(6)]
loader, net = DataLoader(Kept(samples, Normalise()), batch_size=2), nn.Linear(4, 1)
for _ in range(3):
    for x, y in loader:
        (net(x) - y).square().mean().backward()
print("RESULT", net.weight.grad.norm().item())
