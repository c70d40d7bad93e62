"""Leaves in the memory of what they were made of, which an optimizer steps, and those that are meant to lie there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import outplace


def score(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() - 1).square().sum()


def attack(images: torch.Tensor, steps: int = 3) -> torch.Tensor:
    adversarial = images.detach().requires_grad_()
    optimizer = torch.optim.Adam([adversarial], lr=0.1)
    for _ in range(steps):
        loss = score(adversarial) + (adversarial - images).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return adversarial.detach()


def test_an_attack_that_moves_the_clean_images():
    with outplace.watch() as watched:
        attack(torch.ones(4))
        attack(torch.ones(4))
    (found,) = watched.diagnoses
    assert (found.kind, found.cause, found.tensor.name) == ("silent-other", "leaf-shares-memory", "images")
    assert [one.site.text for one in found.mutations] == ["optimizer.step()"]


def test_a_parameter_that_is_compared_with_where_it_began():
    with outplace.watch() as watched:
        start = torch.ones(4)
        weight = nn.Parameter(start)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        score(weight).backward()
        optimizer.step()
        (weight - start).norm()
    assert [found.tensor.name for found in watched.diagnoses] == ["start"]


def of_a_copy() -> None:
    images = torch.ones(4)
    adversarial = images.clone().requires_grad_()
    optimizer = torch.optim.Adam([adversarial], lr=0.1)
    for _ in range(3):
        (score(adversarial) + (adversarial - images).square().sum()).backward()
        optimizer.step()


def not_read_again() -> None:
    images = torch.ones(4)
    score(images)
    adversarial = images.detach().requires_grad_()
    optimizer = torch.optim.Adam([adversarial], lr=0.1)
    for _ in range(3):
        score(adversarial).backward()
        optimizer.step()
    print(images.shape)


def images_of_their_own_in_each_round() -> None:
    for images in torch.ones(3, 4):
        score(images)
        adversarial = images.detach().requires_grad_()
        optimizer = torch.optim.Adam([adversarial], lr=0.1)
        score(adversarial).backward()
        optimizer.step()


def a_name_that_follows_the_weight() -> None:
    weight = nn.Parameter(torch.ones(4))
    shown = weight.detach()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        score(weight).backward()
        optimizer.step()
        print(shown.norm())


def part_of_a_flat_tensor() -> None:
    flat = torch.ones(8)
    weight = nn.Parameter(flat[:4])
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        score(weight).backward()
        optimizer.step()
        flat.norm()


@pytest.mark.parametrize(
    "program",
    [
        of_a_copy,
        not_read_again,
        images_of_their_own_in_each_round,
        a_name_that_follows_the_weight,
        part_of_a_flat_tensor,
    ],
)
def test_no_false_alarm(program):
    with outplace.watch() as watched:
        program()
    assert not watched.diagnoses
