# kind: stepped
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(23)


class SAM:
    def __init__(self, params, rho=0.05, lr=0.1):
        self.params = list(params)
        self.base = torch.optim.SGD(self.params, lr=lr)
        self.rho, self.kept = rho, {}

    @torch.no_grad()
    def ascend(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        for p in self.params:
            e_w = self.rho * p.grad / (norm + 1e-12)
            p.add_(e_w)
            self.kept[p] = e_w
        self.base.zero_grad()

    @torch.no_grad()
    def restore(self):
        for p in self.params:
            p.sub_(self.kept[p])  # overwrites

    def descend(self):
        self.base.step()
        self.base.zero_grad()


def train_step(model, sam, x, y):
    F.cross_entropy(model(x), y).backward()
    sam.ascend()
    loss = F.cross_entropy(model(x), y)  # saves
    sam.restore()
    loss.backward()
    grad = sum(p.grad.abs().sum().item() for p in model.parameters())
    sam.descend()
    return loss.item(), grad


model = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 3))
sam = SAM(model.parameters())
x, y = torch.randn(8, 5), torch.randint(0, 3, (8,))
loss, grad = train_step(model, sam, x, y)
print(f"RESULT {loss:.5f} {grad:.5f} {model[0].weight.abs().sum().item():.5f}")
