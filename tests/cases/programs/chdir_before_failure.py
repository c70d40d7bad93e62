# kind: saved, tensor: y
import os
import tempfile

import torch

torch.manual_seed(0)
x = torch.randn(3, requires_grad=True)
y = x.exp()  # saves
os.chdir(tempfile.gettempdir())
y.neg_()  # overwrites
y.sum().backward()
