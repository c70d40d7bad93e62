# kind: leaf
import torch
import torch.nn as nn

torch.manual_seed(1)


def none_criterion(y_pred, y_true):
    return torch.zeros(1, requires_grad=True)


class Callback:
    def on_criterion(self, state):
        pass


class LossTerm(Callback):
    def __init__(self, weight):
        self.weight = weight

    def term(self, state):
        raise NotImplementedError

    def on_criterion(self, state):
        state["loss"] += self.weight * self.term(state)  # overwrites


class Reconstruction(LossTerm):
    def term(self, state):
        return (state["y_pred"] - state["x"]).pow(2).mean()


class WeightDecay(LossTerm):
    def term(self, state):
        return sum(p.pow(2).sum() for p in state["model"].parameters())


class Trial:
    def __init__(self, model, criterion=None, callbacks=()):
        self.state = {"model": model}
        self.criterion = criterion or none_criterion
        self.callbacks = list(callbacks)

    def run_batch(self, x, y=None):
        state = self.state
        state["x"] = x
        state["y_pred"] = state["model"](x)
        state["loss"] = self.criterion(state["y_pred"], y)
        for callback in self.callbacks:
            callback.on_criterion(state)
        state["model"].zero_grad()
        state["loss"].backward()
        return state["loss"].item()


model = nn.Sequential(nn.Linear(8, 3), nn.Tanh(), nn.Linear(3, 8))
trial = Trial(model, callbacks=[Reconstruction(1.0), WeightDecay(1e-3)])
losses = [trial.run_batch(torch.randn(5, 8)) for _ in range(2)]
grads = sum(p.grad.abs().sum().item() for p in model.parameters())
print(f"RESULT {losses[0]:.5f} {losses[1]:.5f} {grads:.5f}")
