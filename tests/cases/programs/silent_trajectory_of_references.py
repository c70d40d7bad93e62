# kind: silent-other
import torch

torch.manual_seed(0)
gain = torch.tensor(0.3, requires_grad=True)
position, velocity = torch.zeros(2), torch.ones(2)
path = []
for _ in range(5):
    position += 0.1 * velocity  # overwrites
    path.append(position)
goal = torch.linspace(0, 0.5, 5)[:, None].expand(5, 2)
loss = (gain * (torch.stack(path) - goal)).square().sum()
loss.backward()
print("RESULT", loss.item(), gain.grad.item())
