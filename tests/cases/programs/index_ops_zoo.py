# kind: saved, tensor: memory
import torch

torch.manual_seed(0)
w = torch.randn(4, 3, requires_grad=True)
memory = torch.zeros(4, 3)
loss = (w * memory).sum()  # saves
idx = torch.tensor([0, 2])
memory.index_add_(0, idx, torch.ones(2, 3))  # overwrites
memory[idx] += 1  # overwrites
memory[memory > 1] = 0  # overwrites
memory.scatter_(0, idx[:, None], 5.0)  # overwrites
memory[1, :2] = torch.ones(2)  # overwrites
memory.T[0].fill_(3)  # overwrites
loss.backward()
