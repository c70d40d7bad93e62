# kind: inference, tensor: test_loss
import torch
from torch import nn


def evaluate(model, batches):
    test_loss = 0
    with torch.inference_mode():
        for x in batches:
            test_loss += model(x).mean()
    test_loss /= len(batches)  # overwrites
    return test_loss


torch.manual_seed(0)
evaluate(nn.Linear(3, 1), [torch.randn(2, 3) for _ in range(3)])
