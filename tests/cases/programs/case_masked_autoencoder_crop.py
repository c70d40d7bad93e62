# kind: nograd-view
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(26)


@torch.no_grad()
def crop(volume, location):
    (y0, y1), (x0, x1) = location
    return volume[:, :, y0:y1, x0:x1]


def random_block_mask(size, block, ratio):
    n = size // block
    keep = (torch.rand(n, n) > ratio).float()
    return keep.repeat_interleave(block, 0).repeat_interleave(block, 1)


class MaskedAE(nn.Module):
    def __init__(self, modalities=2, full=24, size=16):
        super().__init__()
        self.size = size
        self.limage = nn.Parameter(torch.zeros(1, modalities, full, full))
        self.encoder = nn.Sequential(nn.Conv2d(modalities, 8, 3, 2, 1), nn.ReLU(inplace=True))
        self.decoder = nn.ConvTranspose2d(8, modalities, 2, 2)

    def fill(self, x, location):
        (y0, y1), (x0, x1) = location
        for i in range(x.shape[0]):
            mask = random_block_mask(self.size, 4, 0.5)
            x[i] = x[i] * mask + self.limage[0, :, y0:y1, x0:x1] * (1 - mask)  # overwrites
        return x

    def forward(self, x, location):
        x = self.fill(x, location)
        return self.decoder(self.encoder(x))


model = MaskedAE()
volume = torch.randn(3, 2, 24, 24)
location = ((2, 18), (5, 21))
patch = crop(volume, location)
target = patch.clone()
loss = F.mse_loss(model(patch, location), target) + 0.005 * model.limage.pow(2).mean()
loss.backward()
grads = sum(p.grad.abs().sum().item() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads:.5f}")
