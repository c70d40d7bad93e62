# kind: saved, tensor: h
import threading

import torch

torch.manual_seed(0)
results = {}


def fit(name, spoil):
    w = torch.ones(3, requires_grad=True)
    h = w.exp()  # saves
    if spoil:
        h.add_(1)  # overwrites
    try:
        h.sum().backward()
        results[name] = "fine"
    except RuntimeError:
        results[name] = "failed"


for name, spoil in (("a", False), ("b", True), ("c", False)):
    worker = threading.Thread(target=fit, args=(name, spoil))
    worker.start()
    worker.join()
print(sorted(results.items()))
