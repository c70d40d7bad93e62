"""`outplace run` on every program: the kind, every line that overwrites and no other, every line that saved."""

from __future__ import annotations

import pytest
import torch

from .conftest import Zygote
from .program import Program, all_programs, found_in


@pytest.mark.parametrize("program", all_programs(), ids=lambda program: program.name)
def test_program(program: Program, zygote: Zygote) -> None:
    version = torch.torch_version.TorchVersion(torch.__version__)
    if version < program.since:
        pytest.skip(f"needs torch {program.since[0]}.{program.since[1]}")
    if version >= (program.until[0], program.until[1] + 1):
        pytest.skip(f"torch has allowed this since {program.until[0]}.{program.until[1]}")
    run = zygote.run(program.folder, *program.command)
    found = found_in(run.report)
    assert "could not read this failure" not in run.output
    if program.kind == "legal":
        assert not run.report["diagnoses"], run.output
        assert run.status == 0, run.output
        return
    assert found.kinds == {program.kind}, run.output
    assert found.overwrites == program.overwrites, run.output
    assert found.saves == program.saves, run.output
    if program.tensor is not None:
        assert program.tensor in found.names, run.output
