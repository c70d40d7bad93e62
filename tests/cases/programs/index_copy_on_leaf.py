# kind: leaf-view
import torch
import torch.nn as nn

torch.manual_seed(0)
embed = nn.Embedding(20, 4).requires_grad_(False)
vision = nn.Linear(6, 4)
head = nn.Linear(4, 20)


def make_inputs_require_grads(module, inputs, output):
    output.requires_grad_(True)


embed.register_forward_hook(make_inputs_require_grads)
ids = torch.randint(0, 20, (2, 5))
x = embed(ids)
flat = x.view(-1, 4)
rows = torch.tensor([1, 7])
flat.index_copy_(0, rows, vision(torch.randn(2, 6)))  # overwrites
loss = head(flat.view(2, 5, 4)).logsumexp(-1).mean()
loss.backward()
