# kind: saved
"""Each operation of a long statement has its own line: subscripts, signs and the augmented assignment itself, too."""
import torch

torch.manual_seed(0)
scores = torch.randn(4, 3, requires_grad=True)
rows, columns = torch.tensor([0, 1, 2]), torch.tensor([2, 1, 0])
picked = torch.stack(
    [
        scores[rows],  # saves
        torch.zeros(3, 3),
        scores[columns],  # saves
    ]
)
rows.zero_()  # overwrites
columns.zero_()  # overwrites
picked.sum().backward()
