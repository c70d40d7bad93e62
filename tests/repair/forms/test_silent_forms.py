"""Repairs of silent bugs: what is written, what is left alone, and that the repaired program computes what is right."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

import forks
from outplace.repair.facts.bug import Moment
from outplace.repair.forms import silent, step_order
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import apply
from outplace.repair.syntax.files import Files


def moved(source: str) -> str | None:
    """The source with the line `# backward` before the line `# write`; None where that is not offered."""
    source = textwrap.dedent(source).lstrip("\n")
    lines = source.splitlines()
    write, backward = (next(n for n, line in enumerate(lines, 1) if mark in line) for mark in ("# write", "# backward"))
    moment = Moment("a.py", write, backward, by_optimizer=False)
    earlier = next(step_order.update_after_backward(Code("a.py", source), moment, Files({"a.py": source})), None)
    return None if earlier is None else apply(source, earlier.edits)


def test_the_backward_goes_first_with_what_it_needs():
    source = """
    for x in data:
        loss = critic(gen(x)).mean()
        for w in critic.parameters():
            w.data.clamp_(-1, 1)  # write
        opt.zero_grad()
        scaled = loss * 2
        print(critic(x))
        scaled.backward()  # backward
        opt.step()
    """
    assert moved(source) == textwrap.dedent("""
    for x in data:
        loss = critic(gen(x)).mean()
        opt.zero_grad()
        scaled = loss * 2
        scaled.backward()  # backward
        for w in critic.parameters():
            w.data.clamp_(-1, 1)  # write
        print(critic(x))
        opt.step()
    """).lstrip("\n")


def test_a_backward_that_ends_the_file():
    assert moved("loss = f(w)\nw.data.zero_()  # write\nloss.backward()  # backward") == (
        "loss = f(w)\nloss.backward()  # backward\nw.data.zero_()  # write"
    )


@pytest.mark.parametrize(
    "source",
    [
        "loss = f(w)\nw.data -= 0.1 * w.grad  # write\nloss.backward()  # backward\n",
        "def update():\n    w.data -= w.grad\n\n\nloss = f(w)\nupdate()  # write\nloss.backward()  # backward\n",
        "loss = f(w)\nopt.step()  # write\nloss.backward()  # backward\n",
        "old = w.data.zero_()  # write\nloss = f(w, old)\nloss.backward()  # backward\n",
        "while True:\n    w.data.zero_()  # write\n    if done:\n        break\n    loss.backward()  # backward\n",
        "loss.backward()  # backward\nw.data.zero_()  # write\n",
        "w.data.zero_(); loss = f(w)  # write\nloss.backward()  # backward\n",
    ],
    ids=["takes a gradient", "in a function", "a step", "its result", "leaves the loop", "in order", "one line"],
)
def test_what_cannot_wait_stays(source):
    assert moved(source) is None


def changed(source: str) -> str | None:
    code = Code("a.py", source)
    edits = silent.changed_parameter(code, code.tree.body[-1])
    return None if edits is None else apply(source, edits)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("w = nn.Parameter(w.data / 2)", "with torch.no_grad():\n    w.copy_(w.data / 2)"),
        ("self.w = torch.nn.Parameter(new)", "with torch.no_grad():\n    self.w.copy_(new)"),
        ("w = w.detach().clamp(0, 1).requires_grad_()", "with torch.no_grad():\n    w.copy_(w.detach().clamp(0, 1))"),
        ("w = (w - 1).requires_grad_(True)", "with torch.no_grad():\n    w.copy_(w - 1)"),
    ],
)
def test_a_parameter_is_changed_instead_of_replaced(before, after):
    assert changed(f"import torch\n{before}\n") == f"import torch\n{after}\n"


@pytest.mark.parametrize(
    "line",
    [
        "w = nn.Parameter(v, requires_grad=False)",
        "w = v.requires_grad_(False)",
        "w = v.requires_grad_(trained)",
        "w, v = nn.Parameter(v), w",
        "w = u = nn.Parameter(v)",
        "net[0] = nn.Parameter(v)",
        "net.head = nn.Linear(3, 2)",
    ],
)
def test_other_replacements_are_left(line):
    assert changed(f"import torch\n{line}\n") is None


def later(source: str, line: int) -> str | None:
    code = Code("a.py", source)
    edits = silent.optimizer_later(code, code.tree.body[-1], line)
    return None if edits is None else apply(source, edits)


def test_the_optimizer_is_made_after_the_last_layer():
    source = "net = Net()\nopt = SGD(\n    net.parameters(),\n)\nx = 1\nnet.head = Linear()"
    assert later(source, 2) == "net = Net()\nx = 1\nnet.head = Linear()\nopt = SGD(\n    net.parameters(),\n)"
    assert later("opt = SGD(net.parameters())\nsched = Step(opt)\nnet.head = Linear()", 1) is None
    assert later("net.head = Linear()\nopt = SGD(net.parameters())\nnet.head.bias.zero_()", 1) is None


@pytest.mark.parametrize(
    ("source", "name", "after"),
    [
        ("history.append(state)", "state", "history.append(state.clone())"),
        ("history[t] = state", "state", "history[t] = state.clone()"),
        ("kept.append([p.grad for p in ps])", "net.w.grad", "kept.append([p.grad.clone() for p in ps])"),
        ("state['last'] = p.grad", 'state["last"]', "state['last'] = p.grad.clone()"),
        ("history[t] = other\nkept.append([p.grad for p in ps])", "state", None),
    ],
)
def test_what_is_kept_is_a_copy(source, name, after):
    found = silent.cloned_appends(Code("a.py", source), name)
    assert [apply(source, edits) for edits in found] == ([] if after is None else [after])


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("y[i] = y[i] + v", "y.index_put_((i,), v, accumulate=True)"),
        ("y[i] = y[i] - a * b", "y.index_put_((i,), -(a * b), accumulate=True)"),
        ("y[i] = v - y[i]", None),
        ("y[i] = y[j] + v", None),
        ("y[i] = y[i] * v", None),
    ],
)
def test_an_index_that_occurs_twice_is_added_twice(source, after):
    code = Code("a.py", source)
    edits = silent.accumulated(code, code.tree.body[0])
    assert (None if edits is None else apply(source, edits)) == after


PROGRAMS = Path(__file__).parents[2] / "cases" / "programs"


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        (
            "silent_ema_weights_swapped_in",
            "prediction = model(x)",
            "prediction = torch.func.functional_call(model, {n: p * 1 for n, p in model.named_parameters()}, (x,))",
        ),
        (
            "silent_parameter_reassigned",
            "self.weight = nn.Parameter(self.weight.data / self.weight.data.norm())",
            "self.weight.data.div_(self.weight.data.norm())",
        ),
        (
            "silent_attack_moves_clean_images",
            "clean.detach().requires_grad_()",
            "torch.tensor(clean.tolist(), requires_grad=True)",
        ),
        (
            "silent_frames_of_one_memory",
            "tensor.detach().cpu().numpy()",
            "np.array(tensor.tolist(), dtype=np.float32)",
        ),
        (
            "silent_replay_over_one_array",
            "return self.state, float(self.state.sum())",
            "return np.array(self.state.tolist(), dtype=np.float32), float(self.state.sum())",
        ),
        (
            "silent_samples_scaled_each_epoch",
            "self.transform(self.samples[index])",
            "self.transform({key: value + 0 for key, value in self.samples[index].items()})",
        ),
        ("silent_function_overwrites_its_input", "work = scores.float()", "work = scores * 1.0"),
        (
            "silent_client_becomes_the_sum",
            "total = networks[0].state_dict()",
            "total = {name: value + 0 for name, value in networks[0].state_dict().items()}",
        ),
        (
            "silent_gradient_buffer_handed_out",
            "self.buffer.numpy()",
            "np.array(self.buffer.tolist())",
        ),
        (
            "silent_ends_kept_by_data",
            "        u.data[:, 0] = self.left  # overwrites\n        u.data[:, -1] = self.right  # overwrites\n",
            "        left, right = u[:, :1] * 0 + self.left, u[:, :1] * 0 + self.right\n"
            "        u = torch.cat([left, u[:, 1:-1], right], 1)\n",
        ),
        (
            "silent_part_scaled_by_data",
            "ball.speed.data[below] *= -loss",
            "ball.speed = ball.speed * torch.where(below, -loss, 1.0)",
        ),
    ],
)
def test_a_run_repairs_it(tmp_path, name, wrong, right):
    """The repaired program prints what a program prints that was written rightly by hand, in another way."""
    source = (PROGRAMS / f"{name}.py").read_text()
    assert wrong in source
    case, by_hand = tmp_path / "case.py", tmp_path / "by_hand.py"
    case.write_text(source)
    by_hand.write_text(source.replace(wrong, right))
    shown = results(tmp_path, "-m", "outplace", "run", "--fix", "case.py")
    assert case.read_text() != source
    (repaired,), (meant,) = results(tmp_path, "case.py"), results(tmp_path, "by_hand.py")
    assert repaired == pytest.approx(meant, rel=1e-5)
    assert shown[-1] == repaired, "the output ends with that of the repaired program"


def results(folder: Path, *words: str) -> list[list[float]]:
    """The numbers of each line of results."""
    done = forks.python(folder, *words)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    return [[float(number) for number in line.split()] for line in found]


def own(source: str, saver: str) -> str:
    """The source with memory of their own for the tensors that the line with this text is given."""
    code = Code("a.py", source)
    statement = next(one for one in ast.walk(code.tree) if isinstance(one, ast.stmt) and saver in ast.unparse(one))
    return apply(source, silent.own_tensors(code, statement))


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("y = net(torch.from_numpy(obs).float())", "y = net(torch.from_numpy(obs).clone().float())"),
        ("x = torch.as_tensor(obs)\ny = net(x)", "x = torch.as_tensor(obs).clone()\ny = net(x)"),
        ("x = torch.from_numpy(obs)\nx[0] = 1\ny = net(x)", "x = torch.from_numpy(obs)\nx[0] = 1\ny = net(x)"),
        ("x = torch.from_numpy(obs)\nx.mul_(2)\ny = net(x)", "x = torch.from_numpy(obs)\nx.mul_(2)\ny = net(x)"),
        ("y = net(torch.from_numpy(obs).clone())", "y = net(torch.from_numpy(obs).clone())"),
        ("y = net(torch.tensor(obs))", "y = net(torch.tensor(obs))"),
    ],
)
def test_a_tensor_of_an_array_gets_memory_of_its_own(source, after):
    assert own(source, "net(") == after


def test_an_array_that_astype_need_not_copy_gets_memory_of_its_own():
    source = "arr = np.asarray(image).astype(dtype, copy=False)\narr -= arr.mean()\n"
    code = Code("a.py", source)
    statement = code.tree.body[1]
    assert isinstance(statement, ast.AugAssign)
    (edits,) = silent.own_array(code, statement, statement.target)
    assert apply(source, edits).splitlines()[0] == "arr = np.asarray(image).astype(dtype, copy=False).copy()"


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("x = y.detach()", "x = y.detach().clone()"),
        ("x = y.data", "x = y.data.clone()"),
        ("x = nn.Parameter(y[0])", "x = nn.Parameter(y[0].clone())"),
        ("x = y.detach().clone()", None),
        ("x = nn.Parameter(2 * y)", None),
        ("y.data = x", None),
    ],
)
def test_a_leaf_is_made_of_a_copy(source, after):
    assert [apply(source, edits) for edits in silent.own_leaves(Code("a.py", source))] == ([after] if after else [])


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("new[key] += v", "new[key] = new[key] + v"),
        ("new.position -= v * 2", "new.position = new.position - v * 2"),
        ("x.sub_(v)", "x = x.sub(v)"),
        ("new[take()] += v", None),
        ("optimizer.step()", None),
    ],
)
def test_one_of_two_gets_a_new_tensor(source, after):
    code = Code("a.py", source)
    edits = silent.new_tensor(code, code.tree.body[0])
    assert (None if edits is None else apply(source, edits)) == after


def test_each_part_of_an_array_is_copied():
    source = "a = torch.from_numpy(rows[0])\nb = torch.as_tensor(rows[1]).clone()"
    (edits,) = silent.own_parts(Code("a.py", source))
    assert apply(source, edits).startswith("a = torch.from_numpy(rows[0]).clone()\n")


@pytest.mark.parametrize("cut", ["+= (0.1 * rate).data", ".add_(0.1 * rate.detach())"])
def test_whether_what_was_cut_off_is_trained_is_for_a_person(fixed, cut):
    source = f"""import torch
w = torch.randn(3, requires_grad=True)
state = w * 2
for _ in range(3):
    rate = state * w
    state.data {cut}
rate.sum().backward()
"""
    source = source.replace("data .add_", "data.add_")
    assert fixed(source) == source
    assert fixed(source.replace("(0.1 * rate).data", "0.1").replace("0.1 * rate.detach()", "0.1")) != source
