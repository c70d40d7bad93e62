import torch


class Engine:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.Adagrad(net.parameters(), lr=0.1)

    def fit(self, x, objectives):
        output = self.net(x)  # saves
        for objective in objectives:
            self.optimizer.zero_grad()
            self._update(objective(output))

    def _update(self, loss):
        loss.backward(retain_graph=True)
        self.optimizer.step()  # overwrites
