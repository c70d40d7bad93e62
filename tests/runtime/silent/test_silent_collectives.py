"""Collectives write without moving a version, or move it unseen: the line is named, on each rank that has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import forks

PROGRAM = Path(__file__).parents[1] / "programs" / "collectives.py"

WRITTEN_BY_ONE = {"gather": {0}, "broadcast": {1}, "recv": {1}, "irecv": {1}}
"""The others write on both ranks."""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_each_collective_is_found_on_the_ranks_where_it_writes(tmp_path: Path):
    report = tmp_path / "report.json"
    words = ("run", "--json", str(report), str(PROGRAM), str(tmp_path / "store"))
    run = forks.python(tmp_path, "-m", "outplace", *words)
    assert run.returncode == 0, run.stderr
    happened = {}
    for line in run.stdout.splitlines():
        if line.startswith("["):  # Gloo, which tells who is connected
            continue
        rank, name, how = line.split()
        if how != "absent" and int(rank) in WRITTEN_BY_ONE.get(name, {0, 1}):
            happened.setdefault((name, {"silent": "silent-data", "raised": "saved"}[how]), set()).add(int(rank))
    assert {"all_reduce", "broadcast", "all_gather"} <= {name for name, _ in happened}
    found = {}
    for diagnosis in json.loads(report.read_text())["diagnoses"]:
        (mutation,) = diagnosis["mutations"]
        assert mutation["site"]["function"].endswith(mutation["operation"])
        found[mutation["operation"], diagnosis["kind"]] = set(diagnosis["ranks"])
    assert found == happened
