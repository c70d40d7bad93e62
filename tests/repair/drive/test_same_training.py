"""When are two runs the same training, whatever else they leave in gradients?"""

from __future__ import annotations

from typing import Any

import pytest

from outplace.repair.drive.evidence import Evidence, read, same_training, trains_as_many


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
