# kind: expanded
import torch
import torch.nn as nn

torch.manual_seed(0)


class Whiten(nn.Module):
    def __init__(self, groups, dim, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("running_wm", torch.eye(dim).expand(groups, dim, dim))

    def forward(self, x):
        wm = torch.einsum("gnd,gne->gde", x, x) / x.shape[1]
        with torch.no_grad():
            self.running_wm.mul_(1 - self.momentum).add_(wm, alpha=self.momentum)  # overwrites
        return torch.bmm(x, wm)


net = Whiten(2, 3)
lin = nn.Linear(3, 3)
loss = net(lin(torch.randn(2, 5, 3))).sum()
loss.backward()
