# kind: saved
import torch
import torch.nn as nn

torch.manual_seed(0)


class StackRNN(nn.Module):
    def __init__(self, d, layers):
        super().__init__()
        self.cells = nn.ModuleList([nn.RNNCell(d, d) for _ in range(layers)])

    def forward(self, xs):
        state = torch.zeros(len(self.cells), xs.size(1), xs.size(2))
        outs = []
        for x in xs:
            for i, cell in enumerate(self.cells):
                state[i] = cell(x, state[i])  # saves, overwrites
                x = state[i]
            outs.append(x)
        return torch.stack(outs)


net = StackRNN(3, 2)
loss = net(torch.randn(4, 2, 3)).sum()
loss.backward()
