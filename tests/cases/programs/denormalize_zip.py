# kind: multi-view
import torch
import torch.nn as nn

torch.manual_seed(0)
means, stds = [0.4, 0.5, 0.6], [0.2, 0.2, 0.3]


def denormalize(t):
    out = t.clone()
    for channel, m, s in zip(out[0], means, stds):
        channel.mul_(s).add_(m)  # overwrites
    return out


gen = nn.Conv2d(3, 3, 1)
img = gen(torch.randn(1, 3, 4, 4))
loss = denormalize(img).pow(2).mean()
loss.backward()
