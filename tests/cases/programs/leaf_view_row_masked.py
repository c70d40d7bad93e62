# kind: leaf-view
import torch
from torch import nn

emb = nn.Embedding(5, 3)
emb.weight[0].zero_()  # overwrites
