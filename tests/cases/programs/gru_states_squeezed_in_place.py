# kind: multi-view
import torch
import torch.nn as nn

torch.manual_seed(14)


class GRULayer(nn.Module):
    def __init__(self, d_in, hidden):
        super().__init__()
        self.cell = nn.GRUCell(d_in, hidden)

    def forward(self, x, h):
        outs = []
        for step in x:
            h = self.cell(step, h)
            outs.append(h)
        return torch.stack(outs), h


class QuantizableGRU(nn.Module):
    def __init__(self, d_in, hidden, num_layers=2):
        super().__init__()
        self.num_layers = num_layers
        self.layers = nn.ModuleList(GRULayer(d_in if i == 0 else hidden, hidden) for i in range(num_layers))
        self.init = nn.Linear(3, hidden)

    def forward(self, x, context):
        hx = self.init(context)
        hx = hx.split(1, dim=0)
        hx = [hx[idx].squeeze_(0) for idx in range(self.num_layers)]  # overwrites
        finals = []
        for idx, layer in enumerate(self.layers):
            x, h = layer(x, hx[idx].expand(x.shape[1], -1))
            finals.append(h)
        return x, torch.stack(finals)


model = QuantizableGRU(4, 5)
out, final = model(torch.randn(3, 2, 4), torch.randn(2, 3))
loss = out.square().mean() + final.abs().mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {model.init.weight.grad.abs().sum().item():.5f}")
