# kind: saved
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)


def apply(kind, t):
    match kind:
        case "exp":
            return t.exp()  # saves
        case "shift":
            t += 1  # overwrites
            return t
        case _:
            raise ValueError(kind)


if (y := apply("exp", w)).sum() > 0:
    while (z := apply("shift", y)).sum() < 0:
        pass
z.sum().backward()
