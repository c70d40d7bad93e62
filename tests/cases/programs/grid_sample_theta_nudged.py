# kind: saved, tensor: grid
import torch
import torch.nn.functional as F

torch.manual_seed(0)
image = torch.randn(1, 1, 4, 4, requires_grad=True)
theta = torch.eye(2, 3).unsqueeze(0)
grid = F.affine_grid(theta, (1, 1, 4, 4), align_corners=False)
warped = F.grid_sample(image, grid, align_corners=False)  # saves
grid[..., 0] += 0.1  # overwrites
warped.sum().backward()
