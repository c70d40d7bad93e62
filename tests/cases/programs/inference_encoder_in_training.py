# kind: inference, tensor: features
import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(4, 4), nn.Linear(4, 2)


@torch.inference_mode()
def encode(x):
    return encoder(x)


features = encode(torch.randn(3, 4))
loss = head(features).sum()  # overwrites
loss.backward()
