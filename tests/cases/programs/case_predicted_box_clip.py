# kind: multi-view
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class BoxHead(nn.Module):
    def __init__(self, dim, n_boxes):
        super().__init__()
        self.n_boxes = n_boxes
        self.fc = nn.Linear(dim, n_boxes * 4)

    def forward(self, feat):
        raw = self.fc(feat).view(-1, self.n_boxes, 4)
        centre, size = raw[..., :2] * 20 + 16, raw[..., 2:].exp() * 8
        return torch.cat([centre - size / 2, centre + size / 2], dim=-1)


def clip_to_image(batch, width, height):
    for boxes in batch:
        boxes[:, 0].clamp_(0, width)  # overwrites
        boxes[:, 1].clamp_(0, height)
        boxes[:, 2].clamp_(0, width)
        boxes[:, 3].clamp_(0, height)
    return batch


def giou_like(a, b):
    lt = torch.max(a[..., :2], b[..., :2])
    rb = torch.min(a[..., 2:], b[..., 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
    return inter / (area - inter + 1e-6)


head = BoxHead(10, 3)
opt = torch.optim.SGD(head.parameters(), lr=0.01)
feat = torch.randn(2, 10)
gt = torch.tensor([4.0, 4.0, 28.0, 28.0]).expand(2, 3, 4)

boxes = clip_to_image(head(feat), 32, 32)
loss = (1 - giou_like(boxes, gt)).mean() + 0.01 * F.l1_loss(boxes, gt)
loss.backward()
opt.step()
print(f"RESULT {loss.item():.5f} {head.fc.weight.grad.abs().sum().item():.5f}")
