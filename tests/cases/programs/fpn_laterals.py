# kind: saved
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class FPN(nn.Module):
    def __init__(self, chans=(4, 8, 16), out=8):
        super().__init__()
        self.lateral = nn.ModuleList([nn.Sequential(nn.Conv2d(c, out, 1), nn.ReLU()) for c in chans])
        self.smooth = nn.ModuleList([nn.Conv2d(out, out, 3, padding=1) for _ in chans])

    def forward(self, feats):
        laterals = [conv(f) for conv, f in zip(self.lateral, feats)]  # saves
        for i in range(len(laterals) - 1, 0, -1):
            size = laterals[i - 1].shape[2:]
            laterals[i - 1] += F.interpolate(laterals[i], size=size, mode="nearest")  # overwrites
        return [s(l) for s, l in zip(self.smooth, laterals)]


net = FPN()
feats = [torch.randn(1, 4, 16, 16), torch.randn(1, 8, 8, 8), torch.randn(1, 16, 4, 4)]
outs = net(feats)
loss = sum(o.mean() for o in outs)
loss.backward()
