# kind: stepped
import torch

from engine.loop import fit
from models import Actor, Critic

if __name__ == "__main__":
    torch.manual_seed(0)
    fit(Actor(), Critic(), steps=2)
