# kind: silent-other
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Normalise:
    def __call__(self, sample):
        sample["x"] -= 1.0  # overwrites
        sample["x"][:2] *= 0.5  # overwrites
        sample["x"].clamp_(-3, 3)
        return sample


class Kept(Dataset):
    def __init__(self, samples, transform):
        self.samples, self.transform = samples, transform
        self.noise, self.seen = torch.empty(4), torch.zeros(len(samples))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        sample = self.transform(self.samples[index])
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
