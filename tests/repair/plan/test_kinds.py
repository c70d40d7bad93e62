"""Whole programs of each kind: what is changed, and what is left alone."""

from __future__ import annotations

import textwrap

import pytest
import torch
from differences import verdict

from outplace.repair.forms import inplace_flag
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import apply

SGD = """
import torch

w = torch.ones(3, requires_grad=True)
for _ in range(2):
    loss = (w * w).sum()
    loss.backward()
    {update}
"""


@pytest.mark.parametrize("update", ["w -= 0.1 * w.grad", "w.sub_(0.1 * w.grad)", "w[0] -= 0.1 * w.grad[0]"])
def test_an_update_of_a_leaf_goes_under_no_grad(fixed, update):
    assert fixed(SGD.format(update=update)) == SGD.format(update=f"with torch.no_grad():\n        {update}")


def test_neighbours_share_a_block(fixed):
    source = """
    import torch
    from torch import nn


    def init(layer):
        layer.weight.zero_()
        layer.bias.fill_(1)


    init(nn.Linear(2, 2))
    """
    assert "    with torch.no_grad():\n        layer.weight.zero_()\n        layer.bias.fill_(1)\n" in fixed(source)


def test_a_value_made_from_a_parameter_is_a_new_tensor(fixed):
    source = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.prompt = nn.Parameter(torch.zeros(2, 3))
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            h = self.prompt
            h += self.fc(x)
            return h.sum()


    Net()(torch.ones(2, 3)).backward()
    """
    assert "h = h + self.fc(x)" in fixed(source)


FUSION = """
import torch
import torch.nn.functional as F
from torch import nn


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-0.3, 1.0, 3))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        w = {activated}
        return (w * x).sum(){more}


Fusion()(torch.ones(3)).backward()
"""


@pytest.mark.parametrize(
    ("activated", "old", "new"),
    [
        ("F.relu(self.w, inplace=True)", "F.relu(self.w, inplace=True)", "F.relu(self.w)"),
        ("self.act(self.w)", "nn.ReLU(inplace=True)", "nn.ReLU()"),
    ],
)
def test_a_flag_on_a_parameter_whose_result_is_used_goes(fixed, activated, old, new):
    source = FUSION.format(activated=activated, more="")
    assert fixed(source) == source.replace(old, new)
    read_again = FUSION.format(activated=activated, more=" + self.w.sum()")
    assert fixed(read_again) == read_again


def test_a_module_that_keeps_a_part_is_given_a_copy(fixed):
    source = """
    import torch
    from torch import nn


    class Mix(nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = nn.Parameter(torch.ones(4, 4))

        def forward(self, row):
            return torch.relu(row @ self.theta)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.mix = nn.Linear(4, 4), Mix()

        def forward(self, x):
            h = self.fc(x)
            for t in range(3):
                h[t] = self.mix(h[t])
            return h.sum()


    Net()(torch.ones(3, 4)).backward()
    """
    assert "h[t] = self.mix(h[t].clone())" in fixed(source)


def test_a_buffer_is_copied_for_backward(fixed):
    source = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            y = self.fc(x) * self.mean
            self.mean.mul_(0.9)
            return y.sum()


    Net()(torch.ones(2, 3)).backward()
    """
    assert "self.fc(x) * self.mean.clone()" in fixed(source)


def test_the_flag_of_a_module_goes_where_it_was_made(fixed):
    source = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.act = nn.{made}

        def forward(self, x):
            h = torch.sigmoid(self.fc(x))
            h = self.act(h)
            return h.sum()


    Net()(torch.ones(2, 3)).backward()
    """
    for made, after in [
        ("ReLU(inplace=True)", "ReLU()"),
        ("LeakyReLU(0.2, inplace=True)", "LeakyReLU(0.2)"),
    ]:
        assert fixed(source.replace("{made}", made)).count(f"nn.{after}\n") == 1, made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nn.ReLU(True)", "nn.ReLU()"),
        ("nn.ReLU(inplace=True)", "nn.ReLU()"),
        ("nn.LeakyReLU(0.2, True)", "nn.LeakyReLU(0.2)"),
        ("nn.LeakyReLU(inplace=True, negative_slope=0.2)", "nn.LeakyReLU(negative_slope=0.2)"),
        ("F.dropout(x, 0.5, True, True)", "F.dropout(x, 0.5, True)"),
        ("F.dropout(x, p=0.5, inplace=True)", "F.dropout(x, p=0.5)"),
        ("F.relu(x, inplace=self.inplace)", "F.relu(x)"),
        ("nn.ReLU(inplace=False)", "nn.ReLU(inplace=False)"),
        ("nn.ReLU()", "nn.ReLU()"),
    ],
)
def test_flags(before, after):
    code = Code("a.py", before)
    call = code.tree.body[0].value
    assert apply(before, inplace_flag.dropped(code, call)) == after


def test_a_hook_returns_its_gradient(fixed):
    source = """
    import torch


    def halve(grad):
        {body}


    x = torch.ones(3, requires_grad=True)
    a = x * 2
    b = x * 3
    b.register_hook(halve)
    (a + b).sum().backward()
    """
    assert "    return grad.mul(0.5)\n" in fixed(source.replace("{body}", "grad.mul_(0.5)"))
    assert "    grad = grad * 0.5\n    return grad\n" in fixed(source.replace("{body}", "grad *= 0.5"))


def test_noqa_is_for_the_command_not_for_the_repair(fixed):
    assert "h = h + 1" in fixed(
        """
        import torch

        x = torch.ones(3, requires_grad=True)
        h = x.exp()
        h += 1
        h.sum().backward()
        """
    )


LEGAL = [
    "h = x * 2\nh += 1\nh.sum().backward()",
    "h = torch.cat([x, x])\nh[0] = 0\nh.sum().backward()",
    "with torch.no_grad():\n    x += 1",
    "h = torch.zeros(3)\nh += x\nh.sum().backward()",
    "x.exp().sum().backward()\nx.grad.zero_()",
    "h = x.exp()\nh = h + 1\nh.sum().backward()",
]


@pytest.mark.parametrize("body", LEGAL)
def test_legal_code_is_left_alone(fixed, body):
    source = f"import torch\n\nx = torch.ones(3, requires_grad=True)\n{body}\n"
    assert fixed(source) == source


STEPPED = """
import torch

net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
first, second = net(torch.ones(1, 2)).sum(), net(torch.ones(1, 2)).sum()
first.backward(retain_graph=True)
opt.step()
first.backward()
"""


def test_a_step_in_between_is_for_a_person(fixed):
    assert fixed(STEPPED) == STEPPED


SEVERAL_LOSSES = """
import torch
from torch import nn

actor, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
opt_a = torch.optim.SGD(actor.parameters(), lr=0.1)
opt_c = torch.optim.SGD(critic.parameters(), lr=0.1)


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def learn(x, a):
    loss_c = critic(a).square().mean()
    loss_a = -critic(actor(x)).mean()
{steps}


learn(torch.ones(4, 3), torch.ones(4, 2))
"""


@pytest.mark.parametrize(
    "steps",
    [
        ["loss_c.backward()", "opt_c.step()", "opt_a.zero_grad()", "loss_a.backward()", "opt_a.step()"],
        ["update(opt_c, loss_c)", "update(opt_a, loss_a)"],
    ],
)
def test_a_loss_is_computed_after_the_step_of_another(fixed, steps):
    lines = "\n".join(f"    {step}" for step in steps)
    text = fixed(SEVERAL_LOSSES.format(steps=lines))
    step = 1 if len(steps) > 2 else 0
    assert f"    {steps[step]}\n    loss_a = -critic(actor(x)).mean()\n    {steps[step + 1]}\n" in text
    assert text.count("loss_a = ") == 1


def test_an_update_that_takes_no_gradient_waits_for_the_backward(fixed):
    source = """
    import torch
    from torch import nn

    critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.SGD(critic.parameters(), lr=0.1)


    def clip(limit):
        with torch.no_grad():
            for p in critic.parameters():
                p.clamp_(-limit, limit)


    loss = -critic(torch.ones(5, 2)).mean()
    clip(0.01)
    opt.zero_grad()
    loss.backward()
    opt.step()
    """
    assert "opt.zero_grad()\nloss.backward()\nclip(0.01)\nopt.step()\n" in fixed(source)
    used = source.replace("    opt.zero_grad()\n", "    print(critic(torch.ones(5, 2)))\n")
    assert "loss.backward()\nclip(0.01)\nprint(critic(torch.ones(5, 2)))\nopt.step()\n" in fixed(used)
    read = source.replace("    opt.zero_grad()\n", "    print(critic[0].weight.grad)\n")
    copies = "{name: weight.clone() for name, weight in critic.named_parameters()}"
    forward = f"torch.func.functional_call(critic, {copies}, (torch.ones(5, 2),))"
    assert fixed(read) == textwrap.dedent(read).replace("-critic(torch.ones(5, 2))", f"-{forward}")


def test_a_backward_that_comes_too_late_is_left(fixed):
    source = SEVERAL_LOSSES.format(steps="    opt_c.step()\n    loss_c.backward()\n    loss_a.backward()")
    assert fixed(source) == source


@pytest.mark.parametrize(
    ("body", "style", "expected"),
    [
        ("h[1] = 0.5", "at", "h = outplace.at(h)[1].set(0.5)"),
        ("h[:, 0] += 2.0", "at", "h = outplace.at(h)[:, 0].add(2.0)"),
        ("h[[0, 0]] += 2.0", "at", "h = outplace.at(h)[[0, 0]].set(h[[0, 0]] + 2.0)"),
        ("h[h > 2.0] *= 2.0", "at", "h = outplace.at(h)[h > 2.0].mul(2.0)"),
        ("h[h > 2.0] = 0.5", "blend", "h = h + (h > 2.0) * (0.5 - h)"),
        ("h[h > 2.0] = x[h > 2.0]", "blend", "h = h + (h > 2.0) * (x - h)"),
        ("h[torch.tensor([1])] = 0.5", "blend", "mask[torch.tensor([1])] = True\nh = h + mask * (0.5 - h)"),
        ("h[1] *= 3", "blend", "mask[1] = True\nh = h + mask * (h * 3 - h)"),
        ("h[1] = 0.5", "blend", "mask[1] = True\nh = h + mask * (0.5 - h)"),
        ("h[:, 1:] = 0.5", "blend", "mask[:, 1:] = True\nh = h + mask * (0.5 - h)"),
    ],
)
def test_styles(fixed, body, style, expected):
    source = (
        f"import torch\n\nx = torch.ones(2, 2, requires_grad=True)\nh = x.exp()\n{body}\n(h * h).sum().backward()\n"
    )
    text = fixed(source, style=style)
    assert expected in text
    assert ("import outplace\n" in text) == (style == "at")
    source, text = (one.replace("h = x.exp()", "leaves = [x]\nh = x.exp()") for one in (source, text))
    assert verdict(_with_loss(source), _with_loss(text)) == "mended", "the numbers are those of the original forward"


def _with_loss(source: str) -> str:
    return source.replace("(h * h).sum().backward()", "loss = (h * h).sum()\nloss.backward()").replace(
        "torch.ones(2, 2, ", "torch.tensor([[0.1, 0.9], [1.1, 0.4]], dtype=torch.float64, "
    )


def test_a_forward_hook_returns_its_output(fixed):
    source = """
    import torch
    from torch import nn


    def damp(module, inputs, output):
        {body}


    net = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 1))
    net[1].register_forward_hook(damp)
    net(torch.ones(2, 3)).sum().backward()
    """
    assert "    output = output * 0.5\n    return output\n" in fixed(source.replace("{body}", "output *= 0.5"))
    assert "    output = output.clone()\n    output[0] = 0\n    return output\n" in fixed(
        source.replace("{body}", "output[0] = 0")
    )


def test_an_object_that_is_a_forward_hook_returns_its_output(fixed):
    source = """
    import torch
    from torch import nn


    class Masker:
        def __call__(self, module, inputs, output):
            for row in range(2):
                output[row, 1:] = 0


    net, masker = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 1)), None
    masker = Masker()
    net[1].register_forward_hook(masker)
    net(torch.ones(2, 3)).sum().backward()
    """
    text = fixed(source)
    assert "        output = output.clone()\n        for row in range(2):\n" in text
    assert "            output[row, 1:] = 0\n        return output\n" in text


def test_what_cannot_be_read_from_the_source_is_left(fixed):
    source = """
    import torch

    w = torch.ones(4, requires_grad=True)
    y = w.sigmoid()
    getattr(y, "exp_")()
    y.sum().backward()
    """
    assert "getattr(y, " in fixed(source), "a copy would be written instead of y"


def test_memory_that_is_kept_for_a_result_gives_way_to_a_name(fixed):
    source = """
    import torch
    from torch import nn


    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(2, 2))
            self.register_buffer("scratch", torch.empty(2, 2))

        def forward(self, x):
            torch.add(self.bias, x, out=self.scratch)
            return self.scratch.softmax(-1) * self.scratch


    Scores()(torch.ones(2, 2)).sum().backward()
    """
    text = fixed(source)
    assert "        scratch = torch.add(self.bias, x)\n        return scratch.softmax(-1) * scratch\n" in text
    shown = source.replace("return self.scratch", "self.show()\n            return self.scratch")
    kept = shown.replace("    Scores()", "    def show(scores):\n        print(scores.scratch)\n\n\n    Scores()")
    assert fixed(kept) == textwrap.dedent(kept)


def test_memory_whose_size_is_asked_for_gives_way_too(fixed):
    source = """
    import torch
    from torch import nn


    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.register_buffer("rows", torch.empty(3, 2))

        def forward(self):
            made = [self.weight * t for t in range(len(self.rows))]
            torch.stack(made, out=self.rows)
            return self.rows


    Rows()().sum().backward()
    """
    text = fixed(source)
    assert "        rows = torch.stack(made)\n        return rows\n" in text
    read = source.replace("range(len(self.rows))", "self.rows[:, 0]")
    assert fixed(read) == textwrap.dedent(read)


def test_an_error_and_the_list_that_would_then_keep_one_state_many_times_are_repaired_together(fixed):
    source = """
    import torch

    weight = torch.rand(3, requires_grad=True)
    hidden, outputs = torch.zeros(2, 3), []
    for _ in range(4):
        hidden[0] = torch.tanh(hidden[0] * weight)
        outputs.append(hidden[0])
    torch.stack(outputs).sum().backward()
    """
    repaired = fixed(source)
    assert "outputs.append(hidden[0].clone())" in repaired
    assert repaired == fixed(source.replace("append(hidden[0])", "append(hidden[0].clone())"))
    meant = source.replace("hidden, outputs = torch.zeros(2, 3), []", "hidden, outputs = torch.zeros(3), []")
    meant = textwrap.dedent(meant).replace("hidden[0]", "hidden")
    gradients = []
    for program in (repaired, meant):
        torch.manual_seed(0)
        names = {}
        exec(program, names)
        gradients.append(names["weight"].grad)
    assert torch.equal(*gradients)


PARTS = """import torch

x = torch.linspace(0.2, 1.4, 6, dtype=torch.float64).requires_grad_()
leaves = [x]
flat = x * 2
made = []
for part, power in zip(torch.split(flat, [2, 4]), (1, 2)):
    part /= part.norm()
    made.append(part.pow(power))
loss = torch.cat(made).sum()
loss.backward()
"""


def test_parts_that_only_a_loop_has_are_bound_anew(fixed):
    text = fixed(PARTS)
    assert text == PARTS.replace("part /= part.norm()", "part = part / part.norm()")
    assert verdict(PARTS, text) == "mended"
    direct = PARTS.replace("flat, [2, 4]", "x * 2, [2, 4]")
    assert verdict(direct, fixed(direct)) == "mended"


@pytest.mark.parametrize(
    "change",
    [
        ("torch.cat(made)", "(torch.cat(made) + flat)"),  # what holds all parts is read afterwards
        ("    part /=", "    made.append(part)\n    part /="),  # the part has been kept
        ("part.pow(power)", "flat[0] * part"),
    ],
)
def test_parts_that_others_see_stay_written(fixed, change):
    source = PARTS.replace(*change)
    assert fixed(source) == source  # not even half of it: the write itself is refused


def test_overlapping_memory_is_read_from_a_copy(fixed):
    source = "import torch\n\nx = torch.arange(6.0)\nx[1:] += x[:-1]\n"
    assert fixed(source) == source.replace("x[:-1]", "x[:-1].clone()")


def test_an_index_that_is_written_is_read_from_a_copy(fixed):
    source = "import torch\n\nleft = torch.ones(3, dtype=torch.bool)\nleft[left] = torch.rand(3) > 0.5\n"
    assert "left[left.clone()] = torch.rand(3) > 0.5\n" in fixed(source)


def test_a_bound_is_cast_to_what_it_bounds(fixed):
    source = "import torch\n\nplaces, size = torch.arange(4), torch.tensor(3.0)\nplaces.clamp_(0, size - 1)\n"
    assert "places.clamp_(0, (size - 1).to(places.dtype))\n" in fixed(source)


def test_entries_of_an_expanded_tensor_are_written_in_a_copy(fixed):
    source = """
    import torch

    J = torch.eye(3).unsqueeze(0).expand(5, 3, 3)
    for i in range(3):
        J[:, i, :] = torch.rand(5, 3)
    """
    assert "J = J.clone()\nfor i in range(3):\n" in fixed(source)


@pytest.mark.parametrize("write", ["h.copy_(h)", "h.fill_(0.3)"])
def test_a_write_whose_backward_alone_is_refused_is_left(fixed, write):
    """In memory of its own, the next write would reach one row, not all."""
    source = f"""import torch

x = torch.ones(1, 4, dtype=torch.float64).requires_grad_()
leaves = [x]
h = x.exp().expand(3, 4)
{write}
h[0] = 0.5
loss = (h * h).sum()
loss.backward()
"""
    assert fixed(source) == source
    assert verdict(source, source.replace(write, "h = h.clone()")).startswith("HARMED")


def test_only_tensors_are_cloned(fixed):
    source = """
    import torch
    from torch import nn
    from torch.func import functional_call

    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    fast = {k: v * 1.0 for k, v in net.named_parameters()}
    loss = functional_call(net, fast, (torch.ones(2, 3),)).sum()
    with torch.no_grad():
        for value in fast.values():
            value.sub_(0.1)
    loss.backward()
    """
    assert "net.clone()" not in fixed(source)


def test_data_of_another_shape_is_for_a_person(fixed):
    source = """
    import torch

    image, mean = torch.rand(1, 12, 12), torch.zeros(3, 1, 1{grad})
    image.sub_(mean)
    print(image.shape)
    """
    plain = textwrap.dedent(source.format(grad=""))
    assert fixed(plain) == plain
    assert "image = image.sub(mean)" in fixed(source.format(grad=", requires_grad=True"))


def test_half_of_a_complex_number_is_not_cast_away(fixed):
    source = """
    import torch

    product, phase = torch.rand(3, requires_grad=True) * 2, torch.exp(1j * torch.rand(3))
    product.mul_(phase)
    product.abs().sum().backward()
    """
    assert "product = product.mul(phase)" in fixed(source, unsafe=True)
    alone = textwrap.dedent(source).replace("product.mul_(phase)\n", "multiply(product, phase)\n")
    alone = alone.replace("import torch\n", "import torch\n\n\ndef multiply(a, b):\n    a.mul_(b)\n")
    assert "b.to(" not in fixed(alone, unsafe=True)
