"""Distributed training on two ranks: FSDP2, DDP, tensor parallel layers, a pipeline, `accelerate launch`.

Each part runs right first, then with a bug. Real processes, gloo, CPU.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

from side_by_side import OUTPLACE, finish, start, write

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

BIN = os.path.dirname(sys.executable)

TRAIN = """
    import sys
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.nn.parallel import DistributedDataParallel


    class FeedForward(nn.Module):
        def __init__(self, fails=False):
            super().__init__()
            self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)
            self.fails = fails

        def forward(self, x):
            h = torch.tanh(self.up(x))
            if self.fails:
                h.mul_(2)  # bug
            else:
                h = h * 2
            return self.down(h)


    def train(model, clamps=False):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            loss = model(torch.ones(4, 8)).square().mean()
            with torch.no_grad():
                if clamps:
                    model.down.weight.clamp_(-0.3, 0.3)  # bug
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                if hasattr(model, "down"):
                    model.down.weight.clamp_(-0.3, 0.3)


    def sharded(fails):
        model = nn.Sequential(FeedForward(), FeedForward(fails))
        for part in model:
            part.compile(backend="aot_eager")
            fully_shard(part, mesh=mesh)
        train(fully_shard(model, mesh=mesh))


    def replicated(fails):
        train(torch.compile(DistributedDataParallel(FeedForward(fails)), backend="eager"))


    def tensor_parallel(fails):
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        train(parallelize_module(FeedForward(), mesh, plan), clamps=fails)


    def by_hand(fails):
        weight = nn.Parameter(distribute_tensor(torch.ones(6, 4), mesh, [Shard(0)]))
        weight.full_tensor().square().sum().backward()
        with torch.set_grad_enabled(fails):
            weight -= 0.1 * weight.grad  # bug


    def updated(fails):
        model = fully_shard(FeedForward(), mesh=mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 8)).sum()
        if not fails:
            loss.backward()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()  # bug
        if fails:
            loss.backward()


    def pipeline(fails):
        stage = PipelineStage(FeedForward(fails and rank == 1), rank, 2, torch.device("cpu"))
        schedule = Schedule1F1B(stage, n_microbatches=2, loss_fn=nn.MSELoss())
        losses = []
        schedule.step(*([torch.ones(4, 8)] if rank == 0 else []), target=torch.zeros(4, 8), losses=losses)


    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    parts = [sharded, replicated, tensor_parallel, by_hand, updated, pipeline]
    for part in parts:
        part(fails=False)
    sys.stdout.write("all right\\n")
    sys.stdout.flush()
    for part in parts[:-1]:
        try:
            part(fails=True)
        except Exception:
            sys.stdout.write(f"{part.__name__} fails\\n")
            sys.stdout.flush()
    pipeline(fails=True)
    """

ACCELERATED = """
    import torch
    from accelerate import Accelerator
    from torch import nn


    class Net(nn.Module):
        def __init__(self, fails):
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
            self.fails = fails

        def forward(self, x):
            h = self.body(x).sigmoid()
            if self.fails:
                h *= 2
            else:
                h = h * 2
            return self.head(h)


    def train(fails):
        model = Net(fails)
        model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
        for _ in range(2):
            accelerator.backward(model(torch.ones(2, 4)).mean())
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print("trained")


    accelerator = Accelerator(cpu=True)
    train(fails=False)
    train(fails=accelerator.process_index == 1)
    """


def line_of(program, text, number=0):
    lines = [line for line, content in enumerate(program.strip("\n").split("\n"), 1) if text in content]
    return lines[number]


def finish_ranks(folder, program, *command):
    write(folder, "train.py", program)
    ending = finish(start([*command, "train.py"], folder, OMP_NUM_THREADS="1"), timeout=300)
    with open(folder / "report.json") as file:
        return ending, json.load(file)["diagnoses"]


def facts(diagnosis):
    saved = diagnosis["saved_by"]
    written = [change["site"]["line"] for change in diagnosis["mutations"]]
    return diagnosis["kind"], diagnosis["ranks"], saved and saved["site"]["line"], written


@pytest.mark.skipif(not hasattr(torch.cpu.Stream, "record_event"), reason="this FSDP needs a GPU")
def test_torchrun_standalone(tmp_path):
    torchrun = (os.path.join(BIN, "torchrun"), "--standalone", "--nproc-per-node", "2")
    ending, diagnoses = finish_ranks(tmp_path, TRAIN, *torchrun, "-m", "outplace", "run", "--json", "report.json")
    assert ending.code == 1
    names = ("sharded", "replicated", "tensor_parallel", "by_hand")
    expected = sorted(["all right", *(f"{name} fails" for name in names)] * 2)
    assert sorted(ending.stdout.decode().splitlines()) == expected
    tanh, down = line_of(TRAIN, "h = torch.tanh"), line_of(TRAIN, "return self.down(h)")
    written, clamped, refused, stepped = (line_of(TRAIN, "# bug", number) for number in range(4))
    assert [facts(diagnosis) for diagnosis in diagnoses] == [
        ("saved", [0, 1], tanh, [written]),  # sharded and replicated: one bug
        ("stepped", [0, 1], down, [clamped]),
        ("leaf", [0, 1], None, [refused]),
        ("silent-other", [0, 1], down, [stepped]),
        ("saved", [1], tanh, [written]),  # the last stage
    ]
    forms = [(tensor["shape"], tensor["local_shape"]) for tensor in (found["tensor"] for found in diagnoses)]
    whole = [4, 12], None
    assert forms == [whole, ([8, 12], [8, 6]), ([6, 4], [3, 4]), ([8, 12], [4, 12]), ([2, 12], None)]
    assert ending.stderr.count("OUT202 stepped: model.down.weight (float32[8, 12], [8, 6] on this rank)") == 1
    assert ending.stderr.count("note  On all 2 ranks.") == 4
    assert ending.stderr.count("note  On rank 1 of 2.") == 1


def test_accelerate_launch(tmp_path):
    pytest.importorskip("accelerate")
    options = ("--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no")
    launch = ("accelerate.commands.launch", *options, "--dynamo_backend", "no", "--main_process_port", "0")
    ending, diagnoses = finish_ranks(tmp_path, ACCELERATED, OUTPLACE, "run", "--json", "report.json", "-m", *launch)
    assert (ending.code, ending.stdout.decode().split()) == (1, ["trained"])
    saved, written = line_of(ACCELERATED, ".sigmoid()"), line_of(ACCELERATED, "h *= 2")
    assert [facts(diagnosis) for diagnosis in diagnoses] == [("saved", [1], saved, [written])]
    assert ending.stderr.count("OUT201 saved: h (float32[2, 4]) was overwritten") == 1
    assert "note  On rank 1 of 2." in ending.stderr
    assert "ChildFailedError" in ending.stderr
