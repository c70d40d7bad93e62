# kind: saved
import torch

torch.manual_seed(0)
params = {name: torch.randn(3, requires_grad=True) for name in "ab"}
acts = {
    name: torch.tanh(p)  # saves
    for name, p in params.items()
    if p.requires_grad
}
_ = {name: a.add_(1) for name, a in acts.items()}  # overwrites
sum(a.sum() for a in acts.values()).backward()
