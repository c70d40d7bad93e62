# kind: stepped
import importlib.machinery
from pathlib import Path

import torch

where = str(Path(__file__).with_name("policy.py"))
loader = importlib.machinery.SourceFileLoader("policy", where)
policy_module = loader.load_module()

torch.manual_seed(0)
policy_module.train(torch.randn(5, 3))
