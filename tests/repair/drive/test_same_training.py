"""When are two runs the same training, whatever else they leave in gradients?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from outplace.repair.drive.evidence import Evidence, read, same_gradients, same_training, trains_as_many


def digest(value: float) -> list[float]:
    return [value, abs(value), value / 2]


def run(tmp_path: Any, *facts: str) -> Evidence:
    notes = tmp_path / "notes"
    notes.write_text("\n".join(facts) + "\n")
    return read(str(notes), Evidence(0, []))


def root(value: float) -> str:
    return f'{{"root": [{digest(value)}], "draws": 1}}'


def step(number: int, weight: float, gradient: float) -> str:
    return f'{{"step": {number}, "taken": [[{digest(weight)}, {digest(gradient)}, 0]]}}'


TRAINING = (root(1.0), step(0, 0.5, 0.1), root(2.0), step(1, 0.7, 0.3))


def test_the_same_steps_in_another_order(tmp_path):
    one = run(tmp_path, *TRAINING)
    assert same_training(one, run(tmp_path, *TRAINING))
    assert same_training(one, run(tmp_path, TRAINING[0], TRAINING[2], TRAINING[1], TRAINING[3]))
    assert same_training(one, run(tmp_path, *TRAINING[:3], step(1, 0.7, 0.3 + 1e-8)))


def test_the_optimizers_in_another_order(tmp_path):
    one = run(tmp_path, *TRAINING)
    assert same_training(one, run(tmp_path, root(2.0), step(0, 0.7, 0.3), root(1.0), step(1, 0.5, 0.1)))
    assert not same_training(one, run(tmp_path, root(2.0), step(0, 0.5, 0.3), root(1.0), step(1, 0.7, 0.1)))
    assert not same_training(one, run(tmp_path, root(2.0), step(0, 0.7, 0.3), root(2.0), step(1, 0.5, 0.1)))


def test_weights_that_nothing_trains_any_more(tmp_path):
    one = run(tmp_path, *TRAINING)
    assert trains_as_many(one, one)
    assert trains_as_many(one, run(tmp_path, *TRAINING, step(1, 0.7, 0.0)))  # in some step
    assert not trains_as_many(one, run(tmp_path, *TRAINING[:3], step(1, 0.7, 0.0)))
    assert not trains_as_many(one, run(tmp_path, *TRAINING[:3], '{"step": 1, "taken": []}'))
    assert not trains_as_many(one, run(tmp_path, *TRAINING[:3]))


@pytest.mark.parametrize(
    "facts",
    [
        (*TRAINING[:3], step(1, 0.7, 0.4)),  # another gradient
        (*TRAINING[:3], step(1, 0.8, 0.3)),  # another weight
        TRAINING[:3],  # a step less
        (*TRAINING, step(1, 0.7, 0.3)),
        (*TRAINING, root(3.0)),
        (root(1.5), *TRAINING[1:]),  # another loss
        (*TRAINING[:3], '{"step": 1, "taken": []}'),  # nothing to take
    ],
)
def test_another_training(tmp_path, facts):
    one = run(tmp_path, *TRAINING)
    assert not same_training(one, run(tmp_path, *facts))


def backward(*leaves: tuple[float, float]) -> str:
    """The gradients of leaves of one shape: each leaf's value and its gradient."""
    found = [{"leaf": [*digest(value), [4]], "grad": digest(gradient)} for value, gradient in leaves]
    return json.dumps({"backward": 0, "gradients": found, "returned": []})


def steps(*weights: tuple[float, float]) -> str:
    """One optimizer step: the weights with their gradients."""
    taken = [[digest(weight), digest(gradient), place] for place, (weight, gradient) in enumerate(weights)]
    return json.dumps({"step": 0, "taken": taken})


def test_gradients_that_are_only_rounding(tmp_path):
    """The bias before a batch norm: its gradient is zero, and Adam moves it by chance all the same."""
    one = run(tmp_path, root(1.0), backward((0.5, 3.0), (0.1, 2e-8)), steps((0.5, 3.0), (0.1, 2e-8)))
    same = run(tmp_path, root(1.0), backward((0.5, 3.0), (0.2, -1e-8)), steps((0.5, 3.0), (0.2, -1e-8)))
    other = run(tmp_path, root(1.0), backward((0.5, 3.0), (0.1, 2e-4)), steps((0.5, 3.0), (0.1, 2e-4)))
    small = run(tmp_path, root(1.0), backward((0.5, 3e-9), (0.1, 2e-8)))
    less = run(tmp_path, root(1.0), backward((0.5, 3e-9), (0.1, 1e-8)))
    assert same_gradients(one, same) == (True, 1) and same_training(one, same)
    assert same_gradients(one, other) == (False, 1) and not same_training(one, other)
    assert same_gradients(small, less) == (False, 1)  # compared with its own largest, it is no rounding
