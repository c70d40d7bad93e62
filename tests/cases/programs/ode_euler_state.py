# kind: saved
import torch
import torch.nn as nn

torch.manual_seed(0)
f = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
state = torch.randn(4, 2)
traj = torch.empty(6, 4, 2)
traj[0] = state
for k in range(5):
    traj[k + 1] = traj[k] + 0.1 * f(traj[k])  # saves, overwrites
loss = traj.pow(2).mean()
loss.backward()
