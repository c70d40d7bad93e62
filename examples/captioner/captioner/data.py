"""Random pictures and random captions."""

import torch


def batches(count, size=8, length=7, vocabulary=50):
    for _ in range(count):
        yield torch.randn(size, 3, 16, 16), torch.randint(0, vocabulary, (size, length))
