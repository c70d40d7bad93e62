# kind: saved, tensor: running
import torch


def accumulator(start):
    running = start
    outputs = []
    while True:
        update = yield outputs
        if update is None:
            return
        outputs.append(running.square() + update)  # saves
        running += update  # overwrites


torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
collect = accumulator(w * 1)
outputs = next(collect)
for _ in range(3):
    outputs = collect.send(torch.randn(3))
sum(o.sum() for o in outputs).backward()
