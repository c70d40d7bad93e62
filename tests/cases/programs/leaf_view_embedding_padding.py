# kind: leaf-view, tensor: embedding.weight
import torch
from torch import nn

embedding = nn.Embedding(5, 3)
embedding.weight[0] = 0.0  # overwrites
