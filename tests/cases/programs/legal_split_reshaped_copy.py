# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(9)


def transform(theta, images, eps=1e-6):
    n, c, h, w = images.shape
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack([xs, ys, torch.ones_like(xs)]).reshape(3, -1)
    warped = theta @ grid
    x_s, y_s, t_s = warped.split(1, dim=1)
    t_flat = t_s.reshape(-1)
    t_flat[t_flat.abs() < eps] = eps
    x = x_s.reshape(-1) / t_flat
    y = y_s.reshape(-1) / t_flat
    sample = torch.stack([x, y], dim=-1).reshape(n, h, w, 2)
    return torch.nn.functional.grid_sample(images, sample, align_corners=True)


class HomographyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)
        nn.init.normal_(self.fc.weight, std=0.05)

    def forward(self, a, b):
        delta = self.fc((a - b).flatten(1))
        eye = torch.eye(3).flatten().expand(delta.size(0), 9)
        return (eye + torch.cat([delta, torch.zeros_like(delta[:, :1])], dim=1)).view(-1, 3, 3)


net = HomographyNet()
a, b = torch.rand(2, 1, 4, 4), torch.rand(2, 1, 4, 4)
theta = net(a, b)
loss = (transform(theta, a) - b).abs().mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {net.fc.weight.grad.abs().sum().item():.5f}")
