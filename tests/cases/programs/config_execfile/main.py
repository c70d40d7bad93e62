# kind: saved, tensor: h
"""A configuration that is Python: read, compiled under its own name, and run."""
from pathlib import Path

import torch

path = Path(__file__).with_name("settings.py")
settings = {}
exec(compile(path.read_text(), str(path), "exec"), settings)

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
settings["objective"](torch.randn(2, 4), w).backward()
