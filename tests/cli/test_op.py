"""`outplace op`: its words, its JSON, its examples, and that it needs no torch."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings

import pytest
from click.testing import CliRunner

from outplace.cli.op import op
from outplace.knowledge import ops
from outplace.knowledge.examples import PRELUDE


def run(*args, code=0, **env):
    result = CliRunner().invoke(op, args, env={"COLUMNS": "100", **env})
    assert result.exit_code == code, result.output
    return result


def answer(*args):
    return json.loads(run(*args, "--json").stdout)


def test_what_exp_keeps():
    assert run("exp").stdout.splitlines() == [
        f"torch.exp   measured on torch {ops.torch_version()}",
        "  keeps           its result",
        "  may write       its input",
        "  must not write  its result",
        "  its output is   a new tensor",
        "  in place        exp_: keeps its result, which is the tensor itself: writing that again makes",
        "                  backward raise",
        "  in errors       ExpBackward0 (or Exp)",
        "",
        "    y = torch.exp(x)",
        "    x.add_(1)         # fine: backward does not need its input",
        "",
        "    y = torch.exp(x)",
        "    y.add_(1)         # raises: backward needs its result",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("*", "its input if other requires grad; other if input requires grad"),
        ("nn.BatchNorm2d", "its input; its running_mean; its running_var; its weight"),
        ("nn.Linear", "its input if weight requires grad"),
        ("split", "several views of its tensor made by one call: none of them may be written"),
        ("reshape", "in some calls, a new tensor in others"),
        ("t", "a view: writing it writes its input, and the other way round"),
        ("data", "unseen by autograd: a write spoils gradients without an error"),
        ("detach", "shares memory and version with its input"),
        ("argmax", "nothing: no gradient passes through it"),
        ("zero_", "x = torch.zeros_like(x)"),
        ("-=", "x = x - other"),
        ("bernoulli_", "there t holds the probabilities"),
        ("apply_", "it runs a Python function on each element"),
        ("nn.ReLU(inplace=True)", "leave inplace out"),
        ("mul_", "it keeps a copy of the old values if other requires grad"),
        ("F.dropout", "nothing you hold, only what it computed itself"),
        ("x[i] = v", "torch.where(mask, v, t) for a mask"),
    ],
)
def test_what_it_says(name, words):
    assert words in " ".join(run(name).stdout.split())


def test_a_name_in_several_words():
    assert run("x[i]", "=", "v").stdout.startswith("x[i] = v ")


@pytest.mark.parametrize(("typed", "meant"), [("rellu", "nn.functional.relu"), ("nn.BatchNrm2d", "nn.BatchNorm2d")])
def test_unknown_names_get_suggestions(typed, meant):
    result = run(typed, code=2)
    assert result.stdout == ""
    assert f"no operation is called {typed!r}; did you mean" in result.stderr
    assert meant in result.stderr


def test_unknown_and_unlike_anything():
    assert run("qqqqqqqqqq", code=2).stderr == "outplace: no operation is called 'qqqqqqqqqq'\n"


def test_colour_only_for_terminals_that_want_it():
    assert "\x1b[" not in run("exp").stdout
    assert "\x1b[" in run("exp", FORCE_COLOR="1").stdout
    assert "\x1b[" not in run("exp", FORCE_COLOR="1", NO_COLOR="1").stdout


def test_json():
    exp = answer("exp")
    assert exp["name"] == "exp"
    assert exp["keeps"] == [{"what": "result", "when": "always"}]
    assert exp["must_not_overwrite"] == ["result"]
    assert exp["may_overwrite"] == ["input"]
    assert exp["output"] == "no"
    assert exp["in_place"]["name"] == "exp_"
    assert exp["nodes"] == ["ExpBackward0"]
    assert [example["raises"] for example in exp["examples"]] == [False, True]
    assert answer("masked_fill_")["out_of_place"]["expression"] == "x.masked_fill(...)"
    assert answer("apply_")["out_of_place"]["expression"] is None


def test_every_name_can_be_asked_for():
    for name in random.Random(4).sample(ops.names(), 60):
        run(name)
        assert answer(name)["schema"] == 1


def test_examples_run_and_do_what_they_claim():
    torch = pytest.importorskip("torch")
    if torch.__version__.partition("+")[0] != ops.torch_version():
        pytest.skip(f"the table was measured on torch {ops.torch_version()}")
    usual = (
        "exp * / ** relu sigmoid tanh softmax F.gelu F.silu F.leaky_relu @ F.linear F.conv2d F.layer_norm where gather"
    )
    usual += (
        " masked_fill clamp sqrt log abs sum mean cumsum norm cat max topk F.cross_entropy nn.Linear nn.BatchNorm2d"
    )
    usual += " nn.ReLU nn.LSTM nn.Conv2d exp_ relu_ mul_ add_ masked_fill_ index_put_ nn.ReLU(inplace=True) += split"
    shown = 0
    for name in usual.split():
        for example in answer(name)["examples"]:
            shown += 1
            assert raises(torch, example) == example["raises"], (name, example)
    assert shown > 60


def raises(torch, example):
    scope = {}
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("\n".join([PRELUDE, example["setup"], example["lines"][0]]), scope)
        try:
            exec("\n".join([example["lines"][1], example["backward"]]), scope)
        except RuntimeError as error:
            assert "inplace" in str(error)
            return True
    return False


def test_it_works_without_torch():
    code = "import sys; sys.modules['torch'] = None; from outplace.cli.op import op; op(['nn.BatchNorm2d'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "running_var" in done.stdout


def test_a_condition_that_does_not_always_hold_says_so_first():
    out = " ".join(run("scaled_dot_product_attention").stdout.split())
    assert "key sometimes, if key or query or value require grad;" in out
    assert "and sometimes" not in out
