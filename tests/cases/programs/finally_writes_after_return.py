# kind: saved, tensor: workspace
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
workspace = torch.empty(4)


def score(x):
    try:
        workspace.copy_(x)
        return (workspace * w).sum()  # saves
    finally:
        workspace.zero_()  # overwrites


score(torch.ones(4)).backward()
