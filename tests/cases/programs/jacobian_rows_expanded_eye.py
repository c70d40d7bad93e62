# kind: expanded
import torch
import torch.nn as nn

torch.manual_seed(17)


class ResidualModel(nn.Module):
    def __init__(self, params=3):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(params))

    def forward(self, x):
        return torch.sin(x * self.scale)


def damped_system(model, points):
    batch, n = points.shape
    J = torch.eye(n).unsqueeze(0).expand(batch, n, n)
    value = model(points)
    for i in range(n):
        grad = torch.autograd.grad(value[:, i].sum(), points, create_graph=True)[0]
        J[:, i, :] = grad  # overwrites
    H = J.transpose(1, 2) @ J + 0.1 * torch.eye(n)
    return torch.linalg.solve(H, (J.transpose(1, 2) @ value.unsqueeze(-1)))


model = ResidualModel()
points = torch.rand(5, 3, requires_grad=True)
update = damped_system(model, points)
loss = update.square().mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {model.scale.grad.abs().sum().item():.5f}")
