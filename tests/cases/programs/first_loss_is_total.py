# kind: saved, tensor: total
"""The running total begins as the first loss itself: adding to it writes that loss."""
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
losses = [(w * k).norm() for k in range(1, 4)]  # saves
total = losses[0]
for loss in losses[1:]:
    total += loss  # overwrites
(total / len(losses)).backward()
