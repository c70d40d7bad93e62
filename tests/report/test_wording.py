"""What a reader is told by a real run: the headline, the timeline and the fixes of several kinds, one after another."""

from __future__ import annotations

import json

import pytest

from outplace.report import words
from outplace.report.json import read_diagnosis
from outplace.report.terminal import as_text
from side_by_side import outplace_forked, write

pytest.importorskip("torch")

PROGRAM = """
    import torch
    from torch import nn

    student, teacher, batch = nn.Linear(3, 2), nn.Linear(3, 2), torch.ones(4, 3)

    def out_argument():
        buffer = torch.empty(4, 2)
        torch.exp(student(batch), out=buffer)

    def inference():
        with torch.inference_mode():
            target = teacher(batch)
        (student(batch) * target).sum().backward()

    def detached():
        y = student(batch)
        z = y * y
        y.detach_()
        z.sum().backward()

    def loop():
        h = student(batch)
        for _ in range(4):
            total = h.exp().sum()
            h += 1
        total = total + (h * h).sum()
        h += 1
        total.backward()

    def leaf():
        student.weight[0] = 1.0

    def view_of_leaf():
        row = student.weight[0]
        row.add_(1)

    def leaves():
        params = [student.bias, student.weight]
        torch._foreach_add_(params, 1.0)

    def resized():
        y = student(batch)
        y.resize_(2)

    def two_writes():
        y = torch.sigmoid(student(batch))
        y[:, 0] = 1
        y[:, 1] = 2
        y.sum().backward()

    for fails in (out_argument, inference, detached, loop, leaf, view_of_leaf, leaves, resized, two_writes):
        try:
            fails()
        except RuntimeError:
            continue
    """


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The diagnosis of each function, by its name."""
    folder = tmp_path_factory.mktemp("wording")
    write(folder, "program.py", PROGRAM)
    ending = outplace_forked(folder, "run", "--json", "report.json", "program.py")
    assert ending.code == 0, ending.stderr
    entries = json.loads((folder / "report.json").read_text())["diagnoses"]
    return {entry["raised_at"]["function"]: read_diagnosis(entry) for entry in entries}


def titles(diagnosis):
    return [(fix.title, fix.safety) for fix in diagnosis.fixes]


def test_out_argument(told):
    assert words.headline(told["out_argument"]) == (
        "buffer (float32[4, 2]) cannot be written by out= in a call that has a tensor that requires grad"
    )
    assert titles(told["out_argument"]) == [("Bind the result instead of writing into `out=`", "safe")]


def test_the_tensor_of_inference_mode_is_the_one_that_is_cloned(told):
    assert told["inference"].tensor.name == "target"
    assert titles(told["inference"]) == [("Clone `target`, which was made under inference_mode", "safe")]


def test_one_detach_is_one_write_without_a_version_step(told):
    ((change,), text) = told["detached"].mutations, as_text([told["detached"]])
    assert (change.operation, change.count, change.version) == ("detach_", 1, None)
    assert "detach_ (version unchanged) ── backward wants its history" in text
    assert titles(told["detached"]) == [("Use `detach`, which makes a new tensor", "safe")]


def test_a_timeline_begins_with_the_save(told):
    """The line of the loop wrote four times, but never after the save that backward came to first."""
    assert "v4 saved by * ── v5 += ── backward wants v4" in as_text([told["loop"]])


def test_a_leaf_written_by_index(told):
    assert words.headline(told["leaf"]) == (
        "student.weight (float32[2, 3]) is a leaf that requires grad, or a view of one: "
        "item assignment cannot change it in place"
    )
    safe, advice = told["leaf"].fixes
    assert (safe.safety, "torch.no_grad()" in safe.diff) == ("safe", True)
    assert advice.title.startswith("For a value in the graph: ")  # the other way with a leaf


def test_a_view_is_not_called_the_parameter_itself(told):
    assert told["view_of_leaf"].notes == ("row is a view of student.weight.",)


def test_one_of_the_tensors_of_a_list_is_named(told):
    assert words.headline(told["leaves"]).startswith("params[0] (float32[2]) is a leaf that requires grad: ")


def test_kinds_without_a_rewrite_tell_what_the_catalogue_knows(told):
    ((advice, safety),) = titles(told["resized"])
    assert (advice.startswith("Build a new tensor: "), safety) == (True, "suggestion")


def test_one_copy_is_enough_for_all_writes_of_a_function(told):
    copy, other = titles(told["two_writes"])
    assert copy == ("Write into a copy of `y`", "safe")
    assert other == ("Let backward keep `torch.sigmoid(student(batch))` itself, and go on with a copy", "safe")
