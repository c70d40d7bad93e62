# kind: saved, tensor: scores
"""Selective checkpointing keeps the products of its block; the block itself then writes one of them."""
import functools

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def policy(context, operation, *args, **kwargs):
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if operation in products else CheckpointPolicy.PREFER_RECOMPUTE


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        scores = x @ self.query  # saves
        scores.mul_(0.5)  # overwrites
        return scores.softmax(-1)


torch.manual_seed(0)
block = Block()
contexts = functools.partial(create_selective_checkpoint_contexts, policy)
out = checkpoint(block, torch.randn(3, 4), use_reentrant=False, context_fn=contexts)
out[:, 0].sum().backward()
