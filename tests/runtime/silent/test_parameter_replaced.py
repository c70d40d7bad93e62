"""Parameters that were replaced behind their optimizer's back, and the many ways to replace one that are fine."""

from __future__ import annotations

import copy
import pickle
import weakref

import pytest
import torch
from torch import nn

import outplace


def data() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(6, 4), torch.randn(6, 2)


def net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def train(model: nn.Module, *optimizers: torch.optim.Optimizer, steps: int = 3) -> float:
    x, y = data()
    for _ in range(steps):
        loss = (model(x) - y).square().mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return loss.item()


def test_a_layer_replaced_after_the_optimizer_was_made():
    with outplace.watch() as watched:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model[2] = nn.Linear(5, 2)
        train(model, optimizer)
    (found,) = watched.diagnoses
    assert (found.kind, found.tensor.name) == ("silent-other", "model[2].weight")
    assert found.mutations[0].site.text == "model[2] = nn.Linear(5, 2)"


def test_strict_raises_from_the_next_backward():
    model = net()
    with pytest.raises(outplace.WrongGradientError, match="OUT327 parameter-replaced"), outplace.watch(strict=True):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model[0].weight = nn.Parameter(model[0].weight.detach() * 0.5)
        train(model, optimizer)


def test_an_attribute_of_an_object():
    class Attack:
        def __init__(self) -> None:
            self.delta = torch.zeros(4, requires_grad=True)
            self.optimizer = torch.optim.Adam([self.delta], lr=0.1)

        def step(self, target: torch.Tensor) -> None:
            loss = (self.delta - target).square().sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.delta = self.delta.detach().clamp(-0.5, 0.5).requires_grad_()

    with outplace.watch() as watched:
        attack = Attack()
        for _ in range(4):
            attack.step(torch.ones(4))
    (found,) = watched.diagnoses
    assert found.tensor.name == "self.delta"
    assert found.mutations[0].site.text.startswith("self.delta = self.delta.detach()")


def replaced_before_the_optimizer() -> None:
    model = net()
    model[2] = nn.Linear(5, 2)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))


def another_optimizer_afterwards() -> None:
    model = net()
    old = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, old)
    model[2] = nn.Linear(5, 2)
    train(model, old, torch.optim.SGD(model[2].parameters(), lr=0.1))


def handed_to_the_optimizer() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(5, 2)
    optimizer.add_param_group({"params": model[2].parameters()})
    train(model, optimizer)


def updated_by_hand() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(5, 2)
    for _ in range(3):
        train(model, optimizer, steps=1)
        with torch.no_grad():
            for parameter in model[2].parameters():
                parameter -= 0.1 * parameter.grad


def frozen() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(5, 2).requires_grad_(False)
    train(model, optimizer)


def moved_and_cast() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model = model.double().float().to("cpu")
    train(model, optimizer)


def a_name_used_for_something_else() -> None:
    weight = torch.ones(3, requires_grad=True)
    other = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight, other], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        other.square().sum().backward()
        optimizer.step()
        weight = torch.ones(3, requires_grad=True)  # has no gradient: nobody asks for one


@pytest.mark.parametrize(
    "program",
    [
        replaced_before_the_optimizer,
        another_optimizer_afterwards,
        handed_to_the_optimizer,
        updated_by_hand,
        frozen,
        moved_and_cast,
        a_name_used_for_something_else,
    ],
)
def test_no_false_alarm(program):
    with outplace.watch() as watched:
        program()
    assert not watched.diagnoses


def test_the_optimizer_is_left_as_it_was():
    model, called = net(), []
    with outplace.watch():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert pickle.dumps(optimizer.__dict__)  # as a class with a `__getstate__` of its own may do it
        assert copy.deepcopy(optimizer).state_dict() == optimizer.state_dict()
        train(model, optimizer, steps=4)
        assert not optimizer._optimizer_step_post_hooks
        handle = optimizer.register_step_post_hook(lambda *_: called.append(1))
        train(model, optimizer, steps=1)
        handle.remove()
        train(model, optimizer, steps=1)
    assert called == [1]
    assert not torch.nn.modules.module._global_parameter_registration_hooks


def test_a_hook_of_the_users_beside_ours_can_be_removed():
    model, called = net(), []
    with outplace.watch():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        handle = optimizer.register_step_post_hook(lambda *_: called.append(1))
        train(model, optimizer, steps=5)
        handle.remove()
        train(model, optimizer, steps=5)
    assert len(called) == 5


def test_training_is_the_same_bit_for_bit():
    def run() -> float:
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        model[2] = nn.Linear(5, 2)
        return train(model, optimizer, steps=5)

    alone = run()
    with outplace.watch():
        assert run() == alone


def test_tensors_that_we_know_can_be_swapped():
    model = net()
    with outplace.watch():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, optimizer)
        model[0].weight.data.mul_(1.0)
        optimizer.zero_grad()
        other = nn.Parameter(torch.zeros(5, 4))
        torch.utils.swap_tensors(model[0].weight, other)
        assert not model[0].weight.any()
        kept = weakref.WeakKeyDictionary({other: 1})
        with pytest.raises(RuntimeError, match="weakref"):
            torch.utils.swap_tensors(model[0].weight, other)
        assert kept
