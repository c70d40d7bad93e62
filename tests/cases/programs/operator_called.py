# kind: saved, tensor: y
"""An operator of torch.library: its call is what the user can change, not its body."""
import torch


@torch.library.custom_op("outplace_cases::scale_", mutates_args={"x"})
def scale_(x: torch.Tensor, k: float) -> None:
    x.mul_(k)


torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
y = w.sigmoid()  # saves
scale_(y, 2.0)  # overwrites
y.sum().backward()
