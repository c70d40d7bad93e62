"""Guesses by name: each says what it believes, the docs list it, and the other name is not guessed at."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from outplace.source import heuristics

ALL = [function for name, function in inspect.getmembers(heuristics, inspect.isfunction) if not name.startswith("_")]
DOCS = Path(__file__).parents[2] / "docs" / "check.md"


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.__name__)
def test_each_says_what_it_believes_and_what_if_it_is_wrong(function):
    assert function.__doc__.startswith("Belief: ")
    assert "If wrong: " in function.__doc__
    assert f"`{function.__name__}`" in DOCS.read_text("utf-8")


def expression(text):
    return ast.parse(text, mode="eval").body


def test_what_is_believed_and_its_legal_twin():
    assert heuristics.is_mask(expression("self.pruning_mask"))
    assert not heuristics.is_mask(expression("self.scale"))
    assert heuristics.says_inference_only('"""Used only for inference."""')
    assert not heuristics.says_inference_only('"""Used for inference and training."""')
    assert heuristics.trains_by_name("train(model)\n")
    assert not heuristics.trains_by_name("def helper():\n    train(model)\n")
    assert heuristics.is_class_name("layers.Head")
    assert not heuristics.is_class_name("layers.head")
    assert heuristics.makes_optimizer(expression("build_optimizer(net)"))
    assert not heuristics.makes_optimizer(expression("build_scheduler(net)"))
    assert heuristics.hands_on_optimizers("self.update(self.q_optim, self.q, loss)")
    assert not heuristics.hands_on_optimizers("self.update(self.options, self.q, loss)")
    assert heuristics.is_file_of_optimizers("class Lion(Optimizer):")
    assert not heuristics.is_file_of_optimizers("def optimize(x):")
    assert heuristics.is_gradient_name("old_grads")
    assert not heuristics.is_gradient_name("old_values")
    assert heuristics.is_parameter_name("weight")
    assert not heuristics.is_parameter_name("state")
    assert heuristics.takes_no_gradient("attn_mask")
    assert not heuristics.takes_no_gradient("hidden")
    assert heuristics.is_raw_data("pixel_values")
    assert not heuristics.is_raw_data("hidden_states")
    assert heuristics.takes_images(ast.parse("def __init__(self, size, in_chans=3): ...").body[0])
    assert heuristics.takes_images(ast.parse("def __init__(self): self.stem = nn.Conv2d(3, 64, 7)").body[0])
    assert not heuristics.takes_images(ast.parse("def __init__(self, dim, depth=3): nn.Conv2d(dim, 3, 1)").body[0])
    assert heuristics.asks_for_writes("inplace")
    assert not heuristics.asks_for_writes("outputs")
    assert heuristics.is_batch("b")
    assert not heuristics.is_batch("h")
    assert heuristics.is_layer_name("self_attn")
    assert not heuristics.is_layer_name("combine")
    assert heuristics.is_activation_name("self.act")
    assert not heuristics.is_activation_name("self.action")
    assert heuristics.builds_activation("act_cfg")
    assert not heuristics.builds_activation("actions")
    assert heuristics.saves_nothing_by_name("self.dropout")
    assert not heuristics.saves_nothing_by_name("self.conv")
    assert heuristics.is_loss_name("FocalLoss")
    assert not heuristics.is_loss_name("Encoder")
    assert heuristics.is_outside_training("reset_parameters")
    assert not heuristics.is_outside_training("forward")
    assert heuristics.is_outside_training("sample_actions")
    assert not heuristics.is_outside_training("upsample_add")
    assert heuristics.is_file_of_data("package.metrics.iou")
    assert not heuristics.is_file_of_data("geometric.nn")
    assert heuristics.handles_data("ImageDataset")
    assert not heuristics.handles_data("Encoder")
    assert heuristics.may_store("append")
    assert not heuristics.may_store("forward")
    assert heuristics.keeps_no_result("property")
    assert not heuristics.keeps_no_result("lru_cache")
    assert heuristics.is_update_name("_reset_weights")
    assert not heuristics.is_update_name("forward")
