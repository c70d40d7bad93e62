# kind: legal
"""Writes through .data to results of the graph that leave the gradient right."""
import torch

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
scores = w * 2
scores.data.masked_fill_(torch.eye(4, dtype=torch.bool), -float("inf"))  # no gradient comes back to these
first = (scores.softmax(-1) @ torch.ones(4, 4)).sum()

shifted = w * 3
shifted.data.add_(1.0)  # the derivative is one
kept = w * 4
kept.data.clamp_(-100.0, 100.0)  # nothing is changed
rounded = w * 5
rounded.data.round_()  # passed by, as is meant
(first + shifted.sum() + kept.sum() + rounded.sum()).backward()
assert torch.allclose(w.grad[0, 1], torch.tensor(12.0))

seen = w * 6
loss = seen.sum()
loss.backward()
seen.data.mul_(0.5)  # when all is over
