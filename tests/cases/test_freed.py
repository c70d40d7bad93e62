"""`outplace run` on programs whose backward comes into a freed graph: who kept what, where, and how to cut it.

The truth stands in the programs: `# saves` on the line whose saved values are gone, `# keeps` on the one that kept the
tensor beyond its step, `# uses` on the one that used it again, `# frees` and `# raises` on the two backwards.
"""

from __future__ import annotations

import random
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run, Zygote

HEAD = "import torch\nfrom torch import nn\n\ntorch.manual_seed(0)\n"

CARRIED = {
    "hidden state": (
        "h",
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

            def forward(self, x, h):
                h = torch.tanh(x + self.inner(h))  # saves, uses
                return self.head(h), h


        def train():
            cell = Cell()
            optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
            h = torch.zeros(2, 8)
            for _ in range(3):
                y, h = cell(torch.randn(2, 8), h)  # keeps
                optimizer.zero_grad()
                y.pow(2).mean().backward()  # frees, raises
                optimizer.step()


        train()
        """,
    ),
    "state of an LSTM": (
        "state",
        """
        lstm = nn.LSTM(4, 8)
        state = None
        for _ in range(3):
            out, state = lstm(torch.randn(5, 2, 4), state)  # saves, keeps, uses
            out.pow(2).mean().backward()  # frees, raises
        """,
    ),
    "running average": (
        "self.centre",
        """
        class Centred(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 3)
                self.register_buffer("centre", torch.zeros(3))

            def forward(self, x):
                y = torch.tanh(self.net(x))  # saves
                self.centre = self.centre / 2 + y.mean(0)  # keeps, uses
                return y - self.centre


        model = Centred()
        for _ in range(3):
            model(torch.randn(5, 4)).pow(2).sum().backward()  # frees, raises
        """,
    ),
    "buffer written by a slice": (
        "self.h",
        """
        class Memory(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 8)
                self.register_buffer("h", torch.zeros(2, 8))

            def forward(self, x):
                new = torch.tanh(x + self.h.clone())  # uses
                new = self.net(new)  # saves
                self.h[:] = new  # keeps
                return new


        model = Memory()
        for _ in range(3):
            model(torch.randn(2, 8)).pow(2).sum().backward()  # frees, raises
        """,
    ),
    "memory written by copy_": (
        "mem",
        """
        encoder = nn.Linear(4, 8)
        mem = torch.zeros(2, 8)
        for _ in range(3):
            z = torch.tanh(encoder(torch.randn(2, 4)))  # saves
            loss = (z - mem.clone()).pow(2).sum()  # uses
            mem.copy_(z)  # keeps
            loss.backward()  # frees, raises
        """,
    ),
    "bank of features": (
        "bank",
        """
        encoder = nn.Linear(4, 8)
        bank = torch.zeros(6, 8)
        for step in range(3):
            z = torch.tanh(encoder(torch.randn(2, 4)))  # saves
            bank[2 * step : 2 * step + 2] = z  # keeps, uses
            (z @ bank.clone().t()).logsumexp(1).mean().backward()  # frees, raises
        """,
    ),
    "sum of losses": (
        "total",
        """
        net = nn.Linear(4, 1)
        total = 0
        for _ in range(3):
            loss = net(torch.randn(3, 4)).pow(2).mean()  # saves
            total += loss  # keeps, uses
            total.backward()  # frees, raises
        """,
    ),
    "running sum in place": (
        "running",
        """
        net = nn.Linear(4, 1)
        running = torch.zeros(())
        for _ in range(3):
            loss = net(torch.randn(3, 4)).exp().mean()  # saves
            running.mul_(0.9).add_(loss)  # keeps, uses
            running.backward()  # frees, raises
        """,
    ),
    "value of the next state": (
        "value",
        """
        q = nn.Linear(4, 2)
        value = q(torch.randn(1, 4)).max()
        for _ in range(3):
            following = q(torch.randn(1, 4)).max()  # saves
            loss = (value - 0.9 * following).pow(2)  # uses
            loss.backward()  # frees, raises
            value = following  # keeps
        """,
    ),
    "list": (
        "history[0]",
        """
        net = nn.Linear(4, 8)
        history = []
        for _ in range(3):
            z = net(torch.randn(2, 4)).tanh()  # saves
            history.append(z)  # keeps
            torch.stack(history).mean().backward()  # frees, raises, uses
        """,
    ),
    "states of layers": (
        "self.states",
        """
        class Stack(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells = nn.ModuleList([nn.LSTMCell(4, 4), nn.LSTMCell(4, 4)])
                self.states = [None, None]

            def forward(self, x):
                for i, cell in enumerate(self.cells):
                    h, c = cell(x, self.states[i])  # saves, uses
                    self.states[i] = (h, c)  # keeps
                    x = h
                return x


        class Trainer:
            def __init__(self):
                self.model = Stack()

            def step(self, x):
                self.model(x).pow(2).mean().backward()  # frees, raises


        trainer = Trainer()
        for _ in range(3):
            trainer.step(torch.randn(2, 4))
        """,
    ),
    "dict in a closure": (
        "cache",
        """
        net = nn.Linear(4, 4)


        def make():
            cache = {}

            def features(x):
                out = torch.tanh(net(x))  # saves
                before = cache.get("before")
                cache["before"] = out  # keeps
                return out if before is None else out - before.exp()  # uses

            return features


        def main():
            features = make()
            for _ in range(3):
                features(torch.randn(2, 4)).pow(2).sum().backward()  # frees, raises


        main()
        """,
    ),
    "another backward between": (
        "h",
        """
        cell, other = nn.GRUCell(3, 4), nn.Linear(3, 1)
        h, log = torch.zeros(2, 4), 0.0
        for _ in range(3):
            h = cell(torch.randn(2, 3), h)  # saves, keeps, uses
            loss = h.pow(2).sum()
            log = log + loss
            other(torch.randn(2, 3)).sum().backward()
            loss.backward()  # raises
        """,
    ),
}

OTHERS = {
    "computed once": (
        "context",
        "computed once",
        """
        embed, net = nn.Linear(3, 4), nn.Linear(4, 1)
        context = torch.relu(embed(torch.randn(5, 3)))  # saves
        for _ in range(3):
            loss = net(context).pow(2).mean()  # uses
            loss.backward()  # frees, raises
        """,
    ),
    "cached on self": (
        "self._scale",
        "computed once",
        """
        class Kernel(nn.Module):
            def __init__(self):
                super().__init__()
                self.log_scale = nn.Parameter(torch.zeros(3))
                self._scale = None

            def scale(self):
                if self._scale is None:
                    self._scale = self.log_scale.exp()  # saves, keeps
                return self._scale

            def forward(self, x):
                return x * self.scale()  # uses


        model = Kernel()
        for _ in range(3):
            model(torch.randn(2, 3)).sum().backward()  # frees, raises
        """,
    ),
    "computed before another loop": (
        "prepared",
        "computed once",
        """
        embed, net = nn.Linear(3, 4), nn.Linear(4, 1)
        context = torch.tanh(embed(torch.randn(5, 3)))
        for _ in range(2):
            net(torch.randn(2, 4)).pow(2).sum().backward()
        prepared = context.exp()  # saves
        for _ in range(3):
            loss = net(prepared).pow(2).mean()  # uses
            loss.backward()  # frees, raises
        """,
    ),
    "two losses": (
        "y",
        "part of two losses",
        """
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        y = net(torch.randn(2, 4))  # saves
        first = y.pow(2).sum()
        second = y.exp().sum()  # uses
        first.backward()  # frees
        second.backward()  # raises
        """,
    ),
    "the first of three losses keeps the graph": (
        "y",
        "part of two losses",
        """
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        y = net(torch.randn(2, 4))  # saves
        first, second = y.pow(2).sum(), y.sum()
        third = y.exp().sum()  # uses
        first.backward(retain_graph=True)
        second.backward()  # frees
        third.backward()  # raises
        """,
    ),
    "generator and critic": (
        "fake",
        "part of two losses",
        """
        generator, critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh()), nn.Linear(4, 1)
        optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)


        def step():
            fake = generator(torch.randn(3, 2))  # saves
            critic(fake).mean().backward()  # frees
            optimizer.step()
            loss = -critic(fake).mean()  # uses
            loss.backward()  # raises


        step()
        """,
    ),
    "the same loss": (
        "loss",
        "gone backward before",
        """
        x = torch.ones(3, requires_grad=True)
        loss = (x * x).sum()  # saves
        for _ in range(2):
            loss.backward()  # frees, raises
        """,
    ),
    "losses of a loop": (
        None,
        "shares a part of its graph",
        """
        net = nn.Linear(4, 8)
        y = net(torch.randn(2, 4))  # saves
        for loss in [y.exp().sum(), y.pow(2).sum()]:
            loss.backward()  # frees, raises
        """,
    ),
    "gradient without its graph": (
        "score",
        "part of two losses",
        """
        critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        x = torch.randn(3, 4, requires_grad=True)
        score = critic(x).sum()  # saves
        (slope,) = torch.autograd.grad(score, x)  # frees
        loss = score + slope.norm()  # uses
        loss.backward()  # raises
        """,
    ),
}


def started(zygote: Zygote, folder: Path, source: str) -> Run:
    (folder / "train.py").write_text(source)
    return zygote.run(folder, "train.py")


def program(body: str) -> str:
    return HEAD + textwrap.dedent(body)


def marked(source: str, word: str) -> set[int]:
    return {n for n, line in enumerate(source.splitlines(), 1) if re.search(rf"# (?:\w+, )*{word}\b", line)}


def lines_of(*sites: dict[str, Any] | None) -> set[int]:
    return {site["line"] for site in sites if site is not None}


def agrees(found: dict[str, Any], source: str, name: str | None) -> None:
    assert (found["kind"], found["code"], found["tensor"]["name"]) == ("freed", "OUT207", name)
    assert lines_of(found["saved_by"]["site"]) <= marked(source, "saves")
    assert lines_of(found["kept_at"]) == marked(source, "keeps")
    assert lines_of(found["used_at"]) == marked(source, "uses")
    assert lines_of(found["raised_at"]) == marked(source, "raises")
    assert lines_of(*(mutation["site"] for mutation in found["mutations"])) == marked(source, "frees")


def patched(source: str, diff: str) -> str:
    """The source with the hunks of a unified diff applied, by their line numbers."""
    lines, moved = source.splitlines(), 0
    for begin, hunk in re.findall(r"^@@ -(\d+)[^\n]*\n((?:[ +-][^\n]*\n)+)", diff, re.MULTILINE):
        old = [line[1:] for line in hunk.splitlines() if line[0] in " -"]
        new = [line[1:] for line in hunk.splitlines() if line[0] in " +"]
        at = int(begin) - 1 + moved
        assert lines[at : at + len(old)] == old
        lines[at : at + len(old)] = new
        moved += len(new) - len(old)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", CARRIED)
def test_state_carried_into_the_next_step(case: str, zygote: Zygote, tmp_path: Path) -> None:
    name, body = CARRIED[case]
    source = program(body)
    run = started(zygote, tmp_path, source)
    (found,) = run.report["diagnoses"]
    agrees(found, source, name)
    assert run.status == 1
    assert "outlived the step" in found["why"]
    assert any("retain_graph=True is no way out" in note for note in found["notes"])
    cut, *_ = found["fixes"]
    assert cut["safety"] == "unsafe" and "gradients no longer reach" in cut["title"]
    after = started(zygote, tmp_path, patched(source, cut["diff"]))
    assert (after.status, after.report["diagnoses"]) == (0, []), after.output


@pytest.mark.parametrize("case", OTHERS)
def test_one_forward_for_several_backwards(case: str, zygote: Zygote, tmp_path: Path) -> None:
    name, why, body = OTHERS[case]
    source = program(body)
    run = started(zygote, tmp_path, source)
    (found,) = run.report["diagnoses"]
    agrees(found, source, name)
    assert run.status == 1
    assert why in found["why"]
    assert all(fix["safety"] == "suggestion" for fix in found["fixes"])


def test_the_report(zygote: Zygote, tmp_path: Path) -> None:
    run = started(zygote, tmp_path, program(CARRIED["memory written by copy_"][1]))
    report = run.output[run.output.index("OUT207 freed") :]
    wanted = [
        "mem (float32[2, 8]) leads into a graph that an earlier backward has freed",
        "saved here: tanh keeps its result",
        "used again here",
        "kept here, with its graph, for the next step",
        "raised here: this backward needs it again, the one before has freed it",
        "saved by tanh ── freed by backward ── backward wants it again",
        "13 + mem = mem.detach()",
    ]
    places = [" ".join(report.split()).find(text) for text in wanted]
    assert -1 not in places and places == sorted(places), report


def test_the_drawn_story(zygote: Zygote, tmp_path: Path) -> None:
    from outplace.report.html.story import tell
    from outplace.report.json import read_diagnosis

    (found,) = started(zygote, tmp_path, program(CARRIED["memory written by copy_"][1])).report["diagnoses"]
    told = [
        f"{event.title} {event.detail}" for event in tell(read_diagnosis(found)) if event.role not in ("node", "leaf")
    ]
    assert told == [
        "tanh keeps its result",
        "mem kept, with its graph, for the next step",
        "backward frees what it has used",
        "backward needs what is freed",
    ]


WITHOUT_A_DIFF = {
    "object": (
        "state",
        """
        class State:
            def __init__(self, h, c):
                self.h, self.c = h, c


        def advance(cell, x, state):
            h, c = cell(x, (state.h, state.c))  # saves, uses
            return State(h, c)


        cell = nn.LSTMCell(3, 4)
        state = State(torch.zeros(2, 4), torch.zeros(2, 4))
        for _ in range(3):
            state = advance(cell, torch.randn(2, 3), state)  # keeps
            state.h.pow(2).mean().backward()  # frees, raises
        """,
    ),
    "generator": (
        "h",
        """
        cell = nn.GRUCell(4, 8)


        def rollout(h):
            while True:
                h = cell(torch.randn(2, 4), h)  # saves, uses
                yield h


        steps = rollout(torch.zeros(2, 8))
        for _ in range(3):
            next(steps).pow(2).mean().backward()  # frees, raises
        """,
    ),
}


@pytest.mark.parametrize("case", WITHOUT_A_DIFF)
def test_what_cannot_be_written_down_is_told_in_words(case: str, zygote: Zygote, tmp_path: Path) -> None:
    name, body = WITHOUT_A_DIFF[case]
    source = program(body)
    (found,) = started(zygote, tmp_path, source).report["diagnoses"]
    agrees(found, source, name)
    (fix,) = found["fixes"]
    assert fix["safety"] == "suggestion" and "`.detach()`" in fix["title"]


def test_the_step_that_retain_graph_would_run_into(zygote: Zygote, tmp_path: Path) -> None:
    source = program(CARRIED["hidden state"][1])
    (found,) = started(zygote, tmp_path, source).report["diagnoses"]
    step = next(n for n, line in enumerate(source.splitlines(), 1) if "optimizer.step()" in line)
    assert any(f"SGD.step at train.py:{step} has since changed" in note for note in found["notes"])
    (then,) = started(zygote, tmp_path, source.replace("backward()", "backward(retain_graph=True)")).report["diagnoses"]
    assert then["kind"] == "stepped"  # as the note says


def test_an_optimizer_that_changes_other_weights_is_not_held_against_retain_graph(
    zygote: Zygote, tmp_path: Path
) -> None:
    source = program(OTHERS["generator and critic"][2])
    (found,) = started(zygote, tmp_path, source).report["diagnoses"]
    assert any("retain_graph=True" in fix["title"] for fix in found["fixes"])
    assert found["notes"] == []
    kept = source.replace("mean().backward()", "mean().backward(retain_graph=True)")
    assert started(zygote, tmp_path, kept).status == 0  # as the fix says


def test_a_second_state_is_named_though_it_may_have_been_freed_just_now(zygote: Zygote, tmp_path: Path) -> None:
    body = """
    a, b = nn.GRUCell(3, 4), nn.GRUCell(3, 4)
    first, second = torch.zeros(2, 4), torch.zeros(2, 4)
    for _ in range(3):
        x = torch.randn(2, 3)
        first = a(x, first)
        second = b(x, second)
        (first.sum() + second.pow(2).sum()).backward()
    """
    (found,) = started(zygote, tmp_path, program(body)).report["diagnoses"]
    assert found["tensor"]["name"] == "first"
    assert any(note.endswith("unless that step's loss left it out: second.") for note in found["notes"])


@pytest.mark.parametrize("known", [True, False])
def test_where_several_threads_number_their_nodes_no_line_is_guessed(
    zygote: Zygote, tmp_path: Path, known: bool
) -> None:
    body = f"""
    import threading

    from outplace.runtime.record import node_threads

    if not {known}:
        node_threads.known = lambda: False

    w = torch.ones(3, requires_grad=True)
    thread = threading.Thread(target=lambda: (w * w).sum().backward())
    thread.start()
    thread.join()
    h = torch.ones(3)
    for _ in range(3):
        h = (h * w).tanh()
        h.sum().backward()
    """
    (found,) = started(zygote, tmp_path, program(body)).report["diagnoses"]
    assert found["kind"] == "freed"
    assert found["saved_by"] is None if not known else found["saved_by"]["site"]["text"] == "(h * w).tanh()"


def test_a_node_that_hides_what_it_saves(zygote: Zygote, tmp_path: Path) -> None:
    body = """
    w = torch.ones(3, requires_grad=True)
    state = torch.zeros(2, 3)
    for _ in range(3):
        state[0] = w
        state.sum().backward()
    """
    (found,) = started(zygote, tmp_path, program(body)).report["diagnoses"]
    assert found["tensor"]["name"] == "state"
    assert found["kept_at"]["text"] == "state[0] = w"


LEGAL = {
    "detached": CARRIED["memory written by copy_"][1].replace("mem.copy_(z)", "mem.copy_(z.detach())"),
    "one backward": OTHERS["two losses"][2].replace("first.backward()", "").replace("second.b", "(first + second).b"),
    "without a graph": CARRIED["sum of losses"][1]
    .replace("+= loss", "= total + loss.item()")
    .replace("total.b", "loss.b"),
}


def test_what_the_program_catches_it_does_not_die_of(zygote: Zygote, tmp_path: Path) -> None:
    body = """
    loss = (torch.ones(3, requires_grad=True) ** 2).sum()
    loss.backward()
    try:
        loss.backward()
    except RuntimeError as error:
        {handler}
    """
    quiet = started(zygote, tmp_path, program(body.format(handler="print('as expected', error)")))
    assert (quiet.status, quiet.report["diagnoses"]) == (0, []) and "OUT207" not in quiet.output
    for handler in ("raise", "raise ValueError('no') from error", "import traceback; traceback.print_exc()"):
        run = started(zygote, tmp_path, program(body.format(handler=handler)))
        assert [found["kind"] for found in run.report["diagnoses"]] == ["freed"], handler
        assert run.output.partition("outplace: the program went on")[0].count("OUT207 freed") == 1


@pytest.mark.parametrize("case", LEGAL)
def test_what_is_fine_is_not_spoken_of(case: str, zygote: Zygote, tmp_path: Path) -> None:
    run = started(zygote, tmp_path, program(LEGAL[case]))
    assert (run.status, run.report["diagnoses"]) == (0, []), run.output


@pytest.mark.parametrize("seed", range(5))
def test_random_states_of_which_some_are_cut(seed: int, zygote: Zygote, tmp_path: Path) -> None:
    """Only states that were not cut and are part of the loss are named, and the one that is named can be cut."""
    draw = random.Random(seed)
    names = [f"s{number}" for number in range(4)]
    cut = {name for name in names if draw.random() < 0.4}
    used = [name for name in names if draw.random() < 0.7] or names[:1]
    body = ["w = torch.ones(3, requires_grad=True)", *(f"{name} = torch.zeros(3)" for name in names)]
    body += ["for _ in range(3):"]
    for name in draw.sample(names, len(names)):
        other = draw.choice([name, "w"])
        body.append(f"    {name} = ({name} * w + {other} * 0.5).{draw.choice(['tanh', 'sigmoid', 'exp'])}()")
    body.append(f"    ({' + '.join(used)}).sum().backward()")
    body += [f"    {name} = {name}.detach()" for name in sorted(cut)]
    wrong = set(used) - cut
    source = HEAD + "\n".join(body) + "\n"
    for _ in range(len(names) + 1):
        run = started(zygote, tmp_path, source)
        if not run.report["diagnoses"]:
            break
        for found in run.report["diagnoses"]:
            assert found["tensor"]["name"] in wrong, source + run.output
        source = patched(source, run.report["diagnoses"][0]["fixes"][0]["diff"])
        wrong.discard(run.report["diagnoses"][0]["tensor"]["name"])
    assert run.status == 0 and not wrong, source
