# kind: stepped
import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Linear(3, 3)
teacher = copy.deepcopy(student)
x = torch.randn(2, 3, requires_grad=True)
target = teacher(x)  # saves
loss = (student(x) - target).pow(2).mean()


@torch.no_grad()
def update(decay=0.9):
    pairs = zip(teacher.state_dict().values(), student.state_dict().values())
    for old, new in pairs:
        old.mul_(decay).add_(new, alpha=1 - decay)  # overwrites


update()
loss.backward()
