# kind: nograd-view, tensor: window
import torch

torch.manual_seed(0)
memory = torch.zeros(8, 4)
with torch.no_grad():
    with torch.enable_grad():
        scale = torch.ones(4, requires_grad=True)
    window = memory[2:4]
window += scale  # overwrites
