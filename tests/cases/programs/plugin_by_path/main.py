# kind: saved, tensor: features
"""A model file is loaded by its path, as plugin loaders and config systems do."""
import importlib.util
from pathlib import Path

import torch

spec = importlib.util.spec_from_file_location("plugin", Path(__file__).with_name("plugin_net.py"))
plugin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugin)

torch.manual_seed(0)
net = plugin.Net()
loss = net(torch.randn(3, 4)).sum()
loss.backward()
