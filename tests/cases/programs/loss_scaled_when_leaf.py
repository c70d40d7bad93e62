# kind: leaf, tensor: loss
import torch


class Trainer:
    accumulation = 4

    def compute_loss(self, batch):
        return torch.tensor(float(len(batch)), requires_grad=True)

    def training_step(self, batch):
        loss = self.compute_loss(batch)
        loss /= self.accumulation  # overwrites
        loss.backward()


Trainer().training_step([1, 2, 3])
