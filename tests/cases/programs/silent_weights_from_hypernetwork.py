# kind: silent-other, tensor: main.weight
import torch
from torch import nn

torch.manual_seed(0)
hyper, main = nn.Linear(3, 10), nn.Linear(4, 2)
optimizer = torch.optim.Adam(hyper.parameters(), lr=1e-2)
for _ in range(3):
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    generated = hyper(torch.randn(3))
    main.weight.data = generated[:8].view(2, 4)  # overwrites
    main.bias.data = generated[8:]  # overwrites
    loss = (main(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("RESULT", hyper.weight.norm().item())
