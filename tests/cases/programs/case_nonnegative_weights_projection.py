# kind: leaf
import torch
import torch.nn as nn

torch.manual_seed(3)


def make_trainer(model, lr, low, high):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    loss_fn = nn.MSELoss()

    def project():
        for name, p in model.named_parameters():
            if name.endswith("weight"):
                p.clamp_(low, high)  # overwrites

    def step(x, y):
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        project()
        return loss.item()

    return step


model = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))
step = make_trainer(model, lr=0.05, low=0.0, high=0.8)
x = torch.rand(32, 4)
y = x.sum(dim=1, keepdim=True).sqrt()
losses = [step(x, y) for _ in range(4)]
grads = sum(p.grad.abs().sum() for p in model.parameters())
print(f"RESULT {losses[-1]:.5f} {grads.item():.5f}")
