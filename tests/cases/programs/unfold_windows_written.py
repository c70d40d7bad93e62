# kind: saved, tensor: signal
import torch

torch.manual_seed(0)
x = torch.randn(8, requires_grad=True)
signal = torch.sin(x).tanh()  # saves
windows = signal.unfold(0, 4, 4)
windows.select(0, 1).mul_(0.5)  # overwrites
signal.sum().backward()
