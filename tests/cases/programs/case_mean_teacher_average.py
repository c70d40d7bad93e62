# kind: legal
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class ModelEMA:
    def __init__(self, model, decay=0.99):
        self.ema = copy.deepcopy(model).eval()
        self.updates = 0
        self.decay = lambda n: decay * (1 - math.exp(-n / 10))
        for p in self.ema.parameters():
            p.requires_grad_(False)

    def update(self, model):
        with torch.no_grad():
            self.updates += 1
            d = self.decay(self.updates)
            msd = model.state_dict()
            for k, v in self.ema.state_dict().items():
                if v.dtype.is_floating_point:
                    v *= d
                    v += (1.0 - d) * msd[k].detach()


student = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3))
teacher = ModelEMA(student)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
x, y = torch.randn(10, 6), torch.randint(0, 3, (10,))
extra = torch.randn(14, 6)
for _ in range(3):
    loss = F.cross_entropy(student(x), y)
    with torch.no_grad():
        soft = teacher.ema(extra).softmax(dim=1)
    loss = loss + F.kl_div(student(extra).log_softmax(dim=1), soft, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    for p in student.parameters():
        p.grad.clamp_(-1.0, 1.0)
    opt.step()
    teacher.update(student)
grads = sum(p.grad.abs().sum() for p in student.parameters())
shadow = sum(v.abs().sum() for v in teacher.ema.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f} {shadow.item():.5f}")
