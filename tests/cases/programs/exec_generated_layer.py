# kind: saved
"""A layer's forward is written by a template and run by exec, as code generators do."""
import torch

TEMPLATE = """
def forward(x, w):
    h = torch.tanh(x @ w)
    h.mul_(2.0)
    return h.sum()
"""
namespace = {"torch": torch}
exec(compile(TEMPLATE, "<template>", "exec"), namespace)

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
loss = namespace["forward"](torch.randn(2, 4), w)  # saves, overwrites
loss.backward()
