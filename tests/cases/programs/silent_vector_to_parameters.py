# kind: silent-data
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
weights = nn.ParameterList([nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(8, 1))])
x = torch.randn(6, 4)
loss = (torch.tanh(x @ weights[0]) @ weights[1]).square().mean()  # saves
flat = parameters_to_vector(weights).detach()
vector_to_parameters(flat + 0.5 * torch.randn_like(flat), weights)  # overwrites
loss.backward()
print("RESULT", weights[0].grad.norm().item())
