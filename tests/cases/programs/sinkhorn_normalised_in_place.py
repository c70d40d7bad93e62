# kind: saved, tensor: plan
import torch


def sinkhorn(cost, rounds=2):
    plan = torch.exp(-cost)  # saves
    for _ in range(rounds):
        plan /= plan.sum(0, keepdim=True)  # overwrites
        plan /= plan.sum(1, keepdim=True)  # overwrites
    return plan


torch.manual_seed(0)
cost = torch.rand(4, 4, requires_grad=True)
(sinkhorn(cost) * cost.detach()).sum().backward()
