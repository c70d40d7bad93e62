# kind: stepped
import copy
import torch
import torch.nn as nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
teacher = copy.deepcopy(student)
opt = torch.optim.AdamW(student.parameters(), lr=1e-3)


@torch.no_grad()
def ema_update(m=0.99):
    for ps, pt in zip(student.parameters(), teacher.parameters()):
        pt.mul_(m).add_(ps, alpha=1 - m)  # overwrites


for step in range(3):
    x = torch.randn(6, 4)
    loss = (student(x) - teacher(x)).pow(2).mean()  # saves
    ema_update()
    opt.zero_grad()
    loss.backward()
    opt.step()
