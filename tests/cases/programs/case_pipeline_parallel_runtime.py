# kind: stepped
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(23)


class Stage:
    def __init__(self, module, lr=0.05):
        self.module = module
        self.optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9)
        self.inputs, self.outputs = {}, {}

    def forward(self, mb, x):
        x = x.detach()
        if x.is_floating_point():
            x.requires_grad_()
        out = self.module(x)  # saves
        self.inputs[mb], self.outputs[mb] = x, out
        return out

    def backward(self, mb, grad=None):
        self.outputs.pop(mb).backward(grad)
        return self.inputs.pop(mb).grad


class LossStage(Stage):
    def __init__(self, module, targets, **kw):
        super().__init__(module, **kw)
        self.targets, self.losses = targets, {}

    def forward(self, mb, x):
        loss = F.cross_entropy(super().forward(mb, x), self.targets[mb])
        self.outputs[mb] = loss
        self.losses[mb] = loss.item()
        return loss


class Runtime:
    def __init__(self, stages, batches):
        self.stages, self.batches = stages, batches

    def run_forward(self, mb):
        x = self.batches[mb]
        for stage in self.stages:
            x = stage.forward(mb, x)

    def run_backward(self, mb):
        grad = None
        for stage in reversed(self.stages):
            grad = stage.backward(mb, grad)

    def run(self, schedule):
        for kind, mb in schedule:
            if kind == "F":
                self.run_forward(mb)
                continue
            self.run_backward(mb)
            for stage in self.stages:
                stage.optimizer.step()  # overwrites


targets = [torch.randint(0, 4, (6,)) for _ in range(3)]
stages = [Stage(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())),
          LossStage(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)), targets)]
runtime = Runtime(stages, [torch.randn(6, 10) for _ in range(3)])
runtime.run([("F", 0), ("F", 1), ("B", 0), ("F", 2), ("B", 1), ("B", 2)])
grads = sum(p.grad.abs().sum().item() for s in stages for p in s.module.parameters())
print("RESULT " + " ".join(f"{v:.5f}" for v in stages[-1].losses.values()) + f" {grads:.5f}")
