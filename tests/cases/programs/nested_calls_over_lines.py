# kind: saved
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
a, b = nn.Linear(4, 4), nn.Linear(4, 4)


def fuse(x):
    return torch.cat(
        [
            F.relu(
                a(x),
                inplace=True,
            ),
            torch.sigmoid(b(x)),
        ],
        dim=-1,
    ), b(x).sigmoid()


x = torch.randn(2, 4)
left = torch.sigmoid(b(x))  # saves
out, _ = fuse(x)
right = F.leaky_relu(  # overwrites
    left,
    0.1,
    inplace=True,
)
(out.sum() + right.sum()).backward()
