# kind: saved, tensor: a
import torch

torch.manual_seed(0)
x = torch.randn(3, requires_grad=True)
w = torch.randn(3, requires_grad=True)
a = x.exp()  # saves
b = w.tanh()
loss = (a + b).sum()
a += 1  # overwrites
b += 1
torch.autograd.backward([loss], inputs=[x])
