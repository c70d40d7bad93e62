# kind: legal
import importlib.util
from pathlib import Path

import torch

path = Path(__file__).with_name("net_file.py")
spec = importlib.util.spec_from_file_location("net_file", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
namespace = {"__name__": "again"}
exec(compile(path.read_text(), str(path), "exec"), namespace)
exec(compile(path.read_bytes(), path, mode="exec", flags=0, dont_inherit=True), namespace)
torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
(module.forward(w) + namespace["forward"](w)).backward()
print(w.grad.sum().item(), eval(compile("1 + 1", "<sum>", "eval")))
