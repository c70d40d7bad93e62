"""A process that has nothing to report does not load the analysis and the repairs: children start often."""

from __future__ import annotations

import os
import subprocess
import sys

LISTED = "import sys; print(*sorted(name for name in sys.modules if name.startswith(('outplace', 'torch'))))"


def loaded(command, folder, **environment):
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_child_process_that_uses_no_tensors(tmp_path):
    names = loaded(["-c", LISTED], tmp_path, OUTPLACE="1")
    assert "outplace.runtime.program.lifecycle" in names
    assert not [name for name in names if name.startswith(("outplace.source", "outplace.repair.plan", "torch"))]


def test_a_program_without_a_bug(tmp_path):
    program = "import torch\ntorch.ones(2, requires_grad=True).exp().sum().backward()\n"
    (tmp_path / "good.py").write_text(program + LISTED)
    names = loaded(["-m", "outplace", "run", "good.py"], tmp_path)
    assert "outplace.runtime.silent.detectors" in names
    assert not {"outplace.source.interpreter", "outplace.repair.plan.chooser"} & set(names)
