"""torch works without numpy. So does outplace: also what proves a repair."""

from __future__ import annotations

from side_by_side import outplace, write

PROGRAM = """\
import sys
sys.modules["numpy"] = None
import torch

torch.manual_seed(0)
w = torch.rand(3, requires_grad=True)
h = (w * torch.rand(3)).exp()
h += 1
h.sum().backward()
print(w.grad)
"""


def test_a_repair_is_proved_without_numpy(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['numpy'] = None\n")
    write(tmp_path, "train.py", PROGRAM)
    ending = outplace(tmp_path, "run", "--fix", "train.py", PYTHONPATH=str(tmp_path))
    assert "Numpy is not available" not in ending.stderr
    assert ending.code == 0, ending.stderr
    assert "h = h + 1" in (tmp_path / "train.py").read_text()
