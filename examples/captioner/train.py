"""Trains a small image captioner on made-up pictures. It dies at the first backward: outplace says why."""

import argparse

import torch
import torch.nn.functional as F
from captioner.data import batches
from captioner.model import Captioner


def train_step(model, optimizer, images, words):
    optimizer.zero_grad()
    logits = model(images, words[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    model = Captioner(vocabulary=50, width=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (images, words) in enumerate(batches(steps)):
        print(f"step {step}: loss {train_step(model, optimizer, images, words):.3f}")


if __name__ == "__main__":
    main()
