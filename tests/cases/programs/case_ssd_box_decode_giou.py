# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(41)


def make_priors(n, scale=0.3):
    centres = (torch.arange(n) + 0.5) / n
    cy, cx = torch.meshgrid(centres, centres, indexing="ij")
    size = torch.full((n * n,), scale)
    return torch.stack((cx.flatten(), cy.flatten(), size, size * 0.7), dim=1)


def decode(loc, priors, variances=(0.1, 0.2)):
    boxes = torch.cat((
        priors[:, :2] + loc[:, :2] * variances[0] * priors[:, 2:],
        priors[:, 2:] * torch.exp(loc[:, 2:] * variances[1])), dim=1)
    boxes[:, :2] -= boxes[:, 2:] / 2
    boxes[:, 2:] += boxes[:, :2]
    return boxes


def area(b):
    return (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])


def giou_loss(pred, target):
    lt, rb = torch.max(pred[:, :2], target[:, :2]), torch.min(pred[:, 2:], target[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=1)
    union = area(pred) + area(target) - inter
    hull = torch.cat((torch.min(pred[:, :2], target[:, :2]), torch.max(pred[:, 2:], target[:, 2:])), dim=1)
    giou = inter / union - (area(hull) - union) / area(hull)
    return (1 - giou).mean()


class BoxHead(nn.Module):
    def __init__(self, channels, n):
        super().__init__()
        self.reg = nn.Conv2d(channels, 4, 3, padding=1)
        self.register_buffer("priors", make_priors(n))

    def forward(self, feat):
        loc = self.reg(feat).permute(0, 2, 3, 1).reshape(feat.size(0), -1, 4)
        return [decode(l, self.priors) for l in loc]


head = BoxHead(6, 4)
feat = torch.randn(2, 6, 4, 4, requires_grad=True)
target = torch.tensor([0.2, 0.2, 0.6, 0.7]).expand(16, 4)
loss = sum(giou_loss(boxes, target) for boxes in head(feat)) / 2
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in head.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f} {feat.grad.abs().sum().item():.5f}")
