# kind: leaf-view, tensor: spectrum
import torch

spectrum = torch.zeros(5, dtype=torch.complex64, requires_grad=True)
spectrum.imag = torch.ones(5)  # overwrites
