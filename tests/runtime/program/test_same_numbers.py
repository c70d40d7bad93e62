"""Nothing changes: each benchmark model trains to the same numbers, bit for bit, with and without outplace."""

from pathlib import Path

import pytest

import forks

pytest.importorskip("torch")

MODELS = Path(__file__).parents[3] / "benchmarks" / "models"
SMALL = {"BENCH_STEPS": "50", "BENCH_BATCH": "2"}


def digest(command: list[str], model: str) -> str:
    done = forks.python(MODELS, *command, f"{model}.py", **SMALL)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.strip()) == 64
    return done.stdout


@pytest.mark.parametrize("model", ["mlp", "transformer", "resnet", "lstm_loop"])
def test_losses_gradients_and_parameters_after_50_steps_are_equal(model: str) -> None:
    assert digest(["-m", "outplace", "run"], model) == digest([], model)
