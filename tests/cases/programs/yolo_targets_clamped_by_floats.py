# kind: shape-dtype
import torch
import torch.nn as nn

torch.manual_seed(18)


class ComputeLoss:
    def __init__(self, anchors, balance=(4.0, 1.0)):
        self.anchors, self.balance = anchors, balance

    def build_targets(self, preds, targets):
        gain = torch.ones(6)
        indices, boxes = [], []
        for i, p in enumerate(preds):
            gain[2:] = torch.tensor(p.shape)[[3, 2, 3, 2]]
            t = targets * gain
            b = t[:, 0].long()
            gxy, gwh = t[:, 2:4], t[:, 4:6]
            gij = gxy.long()
            gi, gj = gij.T
            indices.append((b, gj.clamp_(0, gain[3] - 1), gi.clamp_(0, gain[2] - 1)))  # overwrites
            boxes.append(torch.cat((gxy - gij, gwh), 1))
        return indices, boxes

    def __call__(self, preds, targets):
        indices, boxes = self.build_targets(preds, targets)
        loss = torch.zeros(())
        for p, (b, gj, gi), box, w in zip(preds, indices, boxes, self.balance):
            ps = p[b, :, gj, gi]
            loss = loss + w * ((ps[:, :2].sigmoid() - box[:, :2]).square().mean() + (ps[:, 2:].exp() - box[:, 2:]).abs().mean())
        return loss


heads = nn.ModuleList([nn.Conv2d(3, 4, 3, stride=s, padding=1) for s in (1, 2)])
images = torch.randn(2, 3, 8, 8)
targets = torch.rand(5, 6)
targets[:, 0] = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0])
loss = ComputeLoss(None)([head(images) for head in heads], targets)
loss.backward()
print(f"RESULT {loss.item():.5f} {heads[0].weight.grad.abs().sum().item():.5f}")
