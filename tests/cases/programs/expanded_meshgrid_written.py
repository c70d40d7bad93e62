# kind: expanded, tensor: xs
import torch

xs, ys = torch.meshgrid(torch.arange(3.0), torch.arange(4.0), indexing="xy")
xs.div_(3)  # overwrites
