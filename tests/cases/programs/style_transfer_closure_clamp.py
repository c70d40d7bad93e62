# kind: leaf, tensor: image
import torch
from torch import nn

torch.manual_seed(0)
features = nn.Conv2d(1, 2, 3)
image = nn.Parameter(torch.rand(1, 1, 5, 5))
optimizer = torch.optim.LBFGS([image], max_iter=2)


def closure():
    image.clamp_(0, 1)  # overwrites
    optimizer.zero_grad()
    loss = features(image).square().mean()
    loss.backward()
    return loss


optimizer.step(closure)
