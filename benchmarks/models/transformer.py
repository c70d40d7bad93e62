"""A small language model in the manner of GPT: four layers, attention written by hand, AdamW."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

WORDS, LENGTH, WIDTH, HEADS, LAYERS = 256, 16, 64, 4, 4


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.register_buffer("future", torch.triu(torch.ones(length, length, dtype=torch.bool), 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(batch, length, self.heads, -1).transpose(1, 2)
        k = k.view(batch, length, self.heads, -1).transpose(1, 2)
        v = v.view(batch, length, self.heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.future[:length, :length], float("-inf"))
        weights = scores.softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.proj(mixed)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        h = F.gelu(h)
        return self.down(h)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, length)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH, HEADS, LENGTH) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        where = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(where)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x)


class Trainer:
    def __init__(self, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.model = LanguageModel().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.tokens = torch.randint(0, WORDS, (8, LENGTH + 1), generator=generator).to(device)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def __call__(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        inputs, targets = self.tokens[:, :-1], self.tokens[:, 1:]
        logits = self.model(inputs)
        loss = F.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(device: str) -> Trainer:
    return Trainer(device)


if __name__ == "__main__":
    import digest

    torch.set_num_threads(1)
    print(digest.of_training(build("cpu")))
