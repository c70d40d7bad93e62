# kind: saved, tensor: y
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


@torch.compile(backend="aot_eager")
def train(x):
    opt.zero_grad()
    y = net(x).exp()  # saves
    torch._dynamo.graph_break()
    y.add_(1)  # overwrites
    loss = y.sum()
    loss.backward()
    opt.step()
    return loss


for _ in range(2):
    train(torch.rand(3, 4))
