# kind: saved, tensor: x
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lib"))

import torch
from layers.act import swish_

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
h = swish_(w * 2)
h.sum().backward()
