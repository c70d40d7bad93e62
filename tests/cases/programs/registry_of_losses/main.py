# kind: stepped
import torch
from engine import Engine
from losses import REGISTRY
from torch import nn

torch.manual_seed(0)
engine = Engine(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
engine.fit(torch.randn(6, 3), [REGISTRY[name] for name in ("mean", "spread")])
