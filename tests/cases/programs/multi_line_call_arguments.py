# kind: saved
import torch
import torch.nn.functional as F

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
x = torch.randn(3, 4)
gate = torch.sigmoid(  # saves
    F.layer_norm(
        x @ w,
        (4,),
    )
)
out = torch.stack(
    [
        gate.exp(),
        gate.log(),  # saves
    ]
).sum()
gate.mul_(  # overwrites
    torch.full(
        (4,),
        0.5,
    )
)
out.backward()
