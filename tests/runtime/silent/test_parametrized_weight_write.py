"""Writes to weights that are computed: told where they are lost, by what the module computes afterwards."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from outplace.runtime.silent.rules import parametrized_weight_write


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


def with_parametrization(layer):
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


MAKERS = {
    "plain": lambda layer: layer,
    "weight norm": nn.utils.weight_norm,
    "spectral norm": nn.utils.spectral_norm,
    "weight norm, as a parametrization": parametrizations.weight_norm,
    "spectral norm, as a parametrization": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "its own": with_parametrization,
}


def made(how, used):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = MAKERS[how](nn.Linear(4, 4)).eval()
    if used:
        layer(torch.ones(2, 4))
    return layer


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("how", MAKERS)
def test_it_knows_what_is_lost(how, used):
    """The module itself is asked: does it compute the same as one that was not written?"""
    layer, other = made(how, used), made(how, used)
    told = parametrized_weight_write._is_computed(layer, "weight")
    layer.weight.data.fill_(0.5)
    lost = torch.equal(layer(torch.ones(2, 4)), other(torch.ones(2, 4)))
    assert told == lost
    assert not parametrized_weight_write._is_computed(layer, "bias")


def test_what_is_cached_stands():
    layer = made("its own", False)
    with parametrize.cached():
        assert not parametrized_weight_write._is_computed(layer, "weight")
    assert parametrized_weight_write._is_computed(layer, "weight")
