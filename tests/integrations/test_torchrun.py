"""Ranks, in both forms: torchrun starts outplace, and outplace starts torchrun. Real processes, gloo, CPU."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys

import pytest

from side_by_side import OUTPLACE, finish, start, write

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

TORCHRUN = os.path.join(os.path.dirname(sys.executable), "torchrun")
REPORTS = ("--json", "report.json", "--html", "report.html")


def ranks(count):
    where = ("--master-port", "0", "--rdzv-endpoint", "localhost:0", "--rdzv-backend", "c10d")
    return "--nproc-per-node", str(count), *where


FAILS_EVERYWHERE = """
    import sys
    import torch
    import torch.distributed as dist
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 1)

        def forward(self, x):
            h = torch.sigmoid(self.first(x))
            h += 1
            return self.second(h)

    dist.init_process_group("gloo")
    sys.stdout.write(f"rank {dist.get_rank()}\\n")  # in one piece, also where Python has no buffer
    sys.stdout.flush()
    Net()(torch.randn(4, 8)).sum().backward()
    """


def finish_ranks(folder, *command):
    temporary = folder / "tmp"
    temporary.mkdir()
    ending = finish(start([*command], folder, TMPDIR=str(temporary), OMP_NUM_THREADS="1"), timeout=300)
    with open(folder / "report.json") as file:
        return ending, json.load(file)["diagnoses"], temporary


def drawn(folder):
    """The bugs of the HTML report, each with the ranks it names."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    pattern = r'<p class="rule"><a class="code"[^>]*>(OUT\d+)</a>.*<span class="order">(ranks? [^<]+)<'
    return re.findall(pattern, page)


def facts(diagnosis):
    saved = diagnosis["saved_by"]["site"]["line"]
    return diagnosis["kind"], diagnosis["ranks"], saved, [change["site"]["line"] for change in diagnosis["mutations"]]


def test_torchrun_starts_outplace(tmp_path):
    write(tmp_path, "train.py", FAILS_EVERYWHERE)
    program = ("-m", "outplace", "run", *REPORTS, "train.py")
    ending, diagnoses, _ = finish_ranks(tmp_path, TORCHRUN, *ranks(2), *program)
    assert ending.code == 1
    assert drawn(tmp_path) == [("OUT201", "ranks 0, 1")]
    assert sorted(ending.stdout.split(b"\n")[:-1]) == [b"rank 0", b"rank 1"]
    assert [facts(diagnosis) for diagnosis in diagnoses] == [("saved", [0, 1], 12, [13])]
    # Each rank has its own traceback, as ever; the diagnosis comes once, and torchrun knows of the failure.
    assert ending.stderr.count("OUT201 saved: h (float32[4, 8]) was overwritten") == 1
    assert "note  On all 2 ranks." in ending.stderr
    assert ending.stderr.count("has the same in-place bug as rank") == 1
    assert ending.stderr.count("]: RuntimeError: one of the variables needed") == 2
    assert "torch.distributed.elastic.multiprocessing.errors.ChildFailedError" in ending.stderr
    assert "/outplace/runtime/" not in ending.stderr


SOME_FAIL = """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()

    def train(model):
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            loss = model(torch.randn(8, 4)).mean() + model(torch.randn(8, 4)).mean()
            loss.backward()
            dist.all_reduce(loss.detach())
            optimizer.step()
            optimizer.zero_grad()

    layers = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 1)
    train(DistributedDataParallel(nn.Sequential(*layers)))

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.register_buffer("scale", torch.full((4,), 1.0 + rank))

        def forward(self, x):
            return self.layer(x) * self.scale

    def send_buffers_between_forward_and_backward():
        model = DistributedDataParallel(Scaled())
        loss = model(torch.ones(2, 4)).sum()
        if rank == 0:
            model.module.scale.data.mul_(3)
        model(torch.ones(2, 4))
        loss.backward()

    def reduce_what_was_saved():
        w = torch.ones(3, requires_grad=True)
        h = w.exp()
        dist.all_reduce(h)
        h.sum().backward()

    send_buffers_between_forward_and_backward()
    reduce_what_was_saved()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            h = self.layer(x).exp()
            if rank in (1, 2):
                h += 1
            return h

    DistributedDataParallel(Net())(torch.ones(2, 4)).sum().backward()
    """


_SENDING = inspect.getsource(torch.nn.parallel.DistributedDataParallel._sync_buffers)
SENDS_UNSEEN = "_unsafe_preserve_version_counter" in _SENDING
"""Are versions put back when DDP has sent its buffers? In an older torch they are not, and PyTorch refuses."""


@pytest.mark.skipif(SENDS_UNSEEN, reason="DDP puts the versions of its buffers back")
def test_buffers_that_an_older_ddp_sends(tmp_path):
    write(
        tmp_path,
        "train.py",
        """
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel

        dist.init_process_group("gloo")
        model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
        real = model(torch.randn(8, 4))
        fake = model(torch.randn(8, 4))
        (real.mean() - fake.mean()).backward()
        """,
    )
    command = (OUTPLACE, "run", *REPORTS, "-m", "torch.distributed.run", *ranks(2), "train.py")
    _, (found,), _ = finish_ranks(tmp_path, *command)
    assert facts(found) == ("saved", [0, 1], 8, [9])
    assert [change["operation"] for change in found["mutations"]] == ["DDP sends its buffers"]
    assert "broadcast_buffers=False" in found["fixes"][0]["title"]


@pytest.mark.skipif(not SENDS_UNSEEN, reason="PyTorch refuses what is told here")
def test_outplace_starts_torchrun(tmp_path):
    """Healthy training raises no alarm; the silent bugs of DDP and collectives are found; two ranks fail."""
    write(tmp_path, "train.py", SOME_FAIL)
    command = (OUTPLACE, "run", *REPORTS, "-m", "torch.distributed.run", *ranks(3), "train.py")
    ending, diagnoses, temporary = finish_ranks(tmp_path, *command)
    assert ending.code == 1
    found = [facts(diagnosis) for diagnosis in diagnoses]
    assert ("saved", [1, 2], 53, [55]) in found
    assert ("silent-data", [0, 1, 2], 40, [41]) in found
    sent = [fact for fact in found if fact[:1] == ("silent-data",) and fact[2] == 28]
    assert sorted(rank for _, ranks, _, _ in sent for rank in ranks) == [0, 1, 2]
    assert all(lines == ([35] if 0 not in ranks else [34, 35]) for _, ranks, _, lines in sent)
    assert len(found) == 2 + len(sent)
    names = {change["operation"] for diagnosis in diagnoses for change in diagnosis["mutations"]}
    assert names == {"__iadd__", "all_reduce", "mul_", "DDP sends its buffers"}
    assert sorted(drawn(tmp_path))[:1] == [("OUT201", "ranks 1, 2")]
    assert len(drawn(tmp_path)) == len(found)
    assert ending.stderr.count("OUT201 saved: h (float32[2, 4]) was overwritten") == 1
    assert "note  On ranks 1-2 of 3." in ending.stderr
    assert "ChildFailedError" in ending.stderr
    assert not list(temporary.glob("outplace-*"))
