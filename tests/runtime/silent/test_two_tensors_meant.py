"""One tensor where two were meant, as a run sees it: names, gradients, expanded memory, networks, batches."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import outplace


def codes(run) -> list[str]:
    with outplace.watch() as watched:
        run()
    return [one.code for one in watched.diagnoses]


# -- two names ------------------------------------------------------------------------------------------------------


def aliased():
    returns = torch.arange(3.0)
    advantages = returns
    advantages -= 1
    return (advantages + returns).tolist()


def copied():
    returns = torch.arange(3.0)
    advantages = returns.clone()
    advantages -= 1
    return (advantages + returns).tolist()


def handle():
    total = torch.zeros(3)
    t = total
    t += 1
    t[0] = 4
    return total.tolist()


def another_shape():
    x = torch.zeros(2, 2)
    flat = x.view(-1)
    flat[0] = 1
    return flat.sum() + x.sum()


def mask(x):
    x[x > 1] = 0
    return x


def mask_(x):
    x[x > 1] = 0
    return x


def masked_by_call():
    patches = torch.arange(3.0)
    visible = mask(patches)
    return (visible - patches).tolist()


def masked_by_name():
    patches = torch.arange(3.0)
    patches = mask(patches)
    return patches.tolist()


def masked_clone():
    patches = torch.arange(3.0)
    visible = mask(patches.clone())
    return (visible - patches).tolist()


def masked_in_place():
    patches = torch.arange(3.0)
    visible = mask_(patches)
    return (visible - patches).tolist()


def test_the_names_differ_in_what_they_were_meant_to_hold():
    assert aliased() != copied() and masked_by_call() != masked_clone()


@pytest.mark.parametrize("run", [aliased, masked_by_call])
def test_both_names_are_used(run):
    assert codes(run) == ["OUT320"]


@pytest.mark.parametrize("run", [copied, handle, another_shape, masked_by_name, masked_clone, masked_in_place])
def test_one_tensor_is_enough(run):
    assert codes(run) == []


def averages_itself():
    net = nn.Linear(2, 2)
    shadow = net.state_dict()
    with torch.no_grad():
        for key, value in net.state_dict().items():
            shadow[key].mul_(0.9).add_(value, alpha=0.1)


def averages_a_copy():
    net = nn.Linear(2, 2)
    shadow = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        for key, value in net.state_dict().items():
            shadow[key].mul_(0.9).add_(value, alpha=0.1)


def test_an_average_of_a_tensor_with_itself():
    assert codes(averages_itself) == ["OUT320"] and codes(averages_a_copy) == []


def interpolate(real, fake):
    mixed = real
    mixed.data.lerp_(fake, 0.5)
    return mixed.sum()


def interpolate_a_copy(real, fake):
    mixed = real.clone()
    mixed.data.lerp_(fake, 0.5)
    return mixed.sum()


@pytest.mark.parametrize(("mix", "found"), [(interpolate, ["OUT320"]), (interpolate_a_copy, [])])
def test_an_argument_that_the_caller_uses_again(mix, found):
    def run():
        real, fake = torch.zeros(2), torch.ones(2)
        total = mix(real, fake)
        return total + real.sum()

    assert codes(run) == found
    assert (run().item() == 1.0) == (not found)


class Counter:
    def count(self, x, state=torch.zeros(1)):  # noqa: B008
        state += x
        return state.item()

    def count_anew(self, x, state=None):
        state = torch.zeros(1) if state is None else state
        state += x
        return state.item()


def test_the_default_of_an_argument():
    counter = Counter()
    assert counter.count(1.0) != counter.count(1.0)
    assert codes(lambda: counter.count(1.0)) == ["OUT339"]
    assert codes(lambda: counter.count(1.0, torch.zeros(1))) == codes(lambda: counter.count_anew(1.0)) == []


# -- gradients ------------------------------------------------------------------------------------------------------


def summed(to_none: bool, clone: bool) -> list[float]:
    w, total = torch.zeros(2, requires_grad=True), None
    optimizer = torch.optim.SGD([w], lr=0.1)
    for factor in (2.0, 3.0):
        optimizer.zero_grad(set_to_none=to_none)
        (factor * w).sum().backward()
        if total is None:
            total = w.grad.clone() if clone else w.grad
        else:
            total += w.grad
    return total.tolist()


def test_gradients_summed_over_a_virtual_step():
    assert summed(False, True) == summed(True, False) == [5.0, 5.0] != summed(False, False)
    assert codes(lambda: summed(False, False)) == ["OUT307"]
    assert codes(lambda: summed(True, False)) == codes(lambda: summed(False, True)) == []


class Monitor:
    def __init__(self, clone):
        self.clone, self.previous, self.same = clone, None, []

    def look(self, w):
        current = w.grad.clone() if self.clone else w.grad
        if self.previous is not None:
            self.same.append(bool((current == self.previous).all()))
        self.previous = current


@pytest.mark.parametrize("clone", [False, True])
def test_a_gradient_that_an_attribute_keeps(clone):
    monitor = Monitor(clone)

    def run():
        w = torch.zeros(2, requires_grad=True)
        for factor in (1.0, 2.0, 3.0):
            if w.grad is not None:
                w.grad.zero_()
            (factor * w).sum().backward()
            monitor.look(w)

    assert codes(run) == ([] if clone else ["OUT307"])
    assert monitor.same == [not clone] * 2


def test_a_handle_of_the_present_gradient():
    def run():
        w = torch.zeros(2, requires_grad=True)
        w.grad = torch.zeros(2)
        gradient = w.grad
        for _ in range(3):
            gradient.zero_()
            (2 * w).sum().backward()
            gradient.norm().item()

    assert codes(run) == []


# -- expanded memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, (1, slice(None)), (slice(0, 1), 0), (Ellipsis, 1, 0)])
def test_a_part_of_an_expanded_dimension(index):
    h = torch.zeros(1, 3).expand(4, 3)
    before = h.clone()

    def run():
        h[index] = 1.0

    assert codes(run) == ["OUT338"]
    before[index] = 1.0
    assert not h.equal(before)


@pytest.mark.parametrize("index", [0, (1, slice(None)), (Ellipsis, 1, 0)])
def test_a_part_of_memory_that_each_has(index):
    h = torch.zeros(1, 3).expand(4, 3).clone()
    before = h.clone()

    def run():
        h[index] = 1.0

    assert codes(run) == []
    before[index] = 1.0
    assert h.equal(before)


# -- writes that backward does not know of ----------------------------------------------------------------------------


def rescaled(how) -> tuple[torch.Tensor, list[str]]:
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 4), torch.randn(2, 3)

    def run():
        h = layer(x)
        h = how(h)
        (h * torch.arange(4.0)).sum().backward()

    found = codes(run)
    return layer.weight.grad, found


def under_no_grad(h):
    with torch.no_grad():
        h.div_(2)
    return h


def out_of_place(h):
    return h / 2


def added(h):
    with torch.no_grad():
        h.add_(1)
    return h


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        ctx.mark_dirty(h)
        return h.div_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient / 2


def test_a_result_that_is_rescaled_under_no_grad():
    gradient, found = rescaled(under_no_grad)
    right, nothing = rescaled(out_of_place)
    assert not gradient.allclose(right) and found == ["OUT337"] and nothing == []


def test_a_function_has_a_backward_of_its_own():
    gradient, found = rescaled(Halved.apply)
    assert gradient.allclose(rescaled(out_of_place)[0]) and found == []


def test_adding_does_not_change_the_derivative():
    gradient, found = rescaled(added)
    assert gradient.allclose(rescaled(lambda h: h)[0]) and found == []


def test_a_prediction_that_is_its_own_target():
    def run(clone: bool) -> float:
        torch.manual_seed(0)
        layer, x = nn.Linear(3, 4), torch.randn(2, 3)
        q = layer(x)
        target = q.detach().clone() if clone else q.detach()
        target[:, 0] = 9.0
        (q - target).square().sum().backward()
        return layer.weight.grad.abs().sum().item()

    assert run(False) == 0 != run(True)
    assert codes(lambda: run(False)) == ["OUT335"] and codes(lambda: run(True)) == []


# -- networks -------------------------------------------------------------------------------------------------------


def test_a_teacher_that_takes_over_the_memory_of_its_student():
    def run():
        student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
        teacher.load_state_dict(student.state_dict(), assign=True)
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        before = teacher.weight.clone()
        for _ in range(2):
            student(torch.ones(1, 2)).square().sum().backward()
            optimizer.step()
        assert not teacher.weight.equal(before)

    assert codes(run) == ["OUT317"]


def test_a_teacher_with_memory_of_its_own():
    def run():
        student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
        teacher.load_state_dict(copy.deepcopy(student.state_dict()), assign=True)
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        before = teacher.weight.clone()
        student(torch.ones(1, 2)).square().sum().backward()
        optimizer.step()
        assert teacher.weight.equal(before)

    assert codes(run) == []


@pytest.mark.parametrize(("kept", "found"), [("cpu", ["OUT314"]), ("double", [])])
def test_a_state_that_is_kept_by_another_tensor_over_it(kept, found):
    def run():
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        best = {key: getattr(value.detach(), kept)() for key, value in model.state_dict().items()}
        before = model.weight.detach().clone()
        model(torch.ones(1, 2)).square().sum().backward()
        optimizer.step()
        model.load_state_dict(best)
        assert model.weight.equal(before) == (kept == "double")

    assert codes(run) == found


# -- batches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
def test_batches_that_are_collated_into_one_buffer(kept):
    buffer = torch.zeros(2, 3)

    def collate(rows):
        for i, row in enumerate(rows):
            buffer[i] = row
        return buffer[: len(rows)]

    def run():
        loader = DataLoader(list(torch.arange(12.0).view(4, 3)), batch_size=2, collate_fn=collate)
        w, sums = torch.ones(3, requires_grad=True), []
        for batch in list(loader) if kept else loader:
            (batch @ w).sum().backward()
            sums.append(batch.sum().item())
        assert sums == ([51.0, 51.0] if kept else [15.0, 51.0])

    assert codes(run) == (["OUT309"] if kept else [])
