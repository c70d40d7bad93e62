# kind: stepped
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)


class ConvBlock(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.LeakyReLU(0.2, inplace=True))


class Generator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.head = ConvBlock(3, ch)
        self.tail = nn.Sequential(nn.Conv2d(ch, 3, 3, padding=1), nn.Tanh())

    def forward(self, noise, prev):
        return self.tail(self.head(noise + prev)) + prev  # saves


class PatchDiscriminator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.head = ConvBlock(3, ch)
        self.tail = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x):
        return self.tail(self.head(x))


def train_single_scale(netD, netG, real, z_opt, Dsteps=3, Gsteps=3, alpha=10.0):
    optD = torch.optim.Adam(netD.parameters(), lr=5e-4, betas=(0.5, 0.999))
    optG = torch.optim.Adam(netG.parameters(), lr=5e-4, betas=(0.5, 0.999))
    prev = torch.zeros_like(real)
    for _ in range(Dsteps):
        netD.zero_grad()
        errD_real = -netD(real).mean()
        noise = torch.randn_like(real)
        fake = netG(noise, prev)
        errD_fake = netD(fake.detach()).mean()
        (errD_real + errD_fake).backward()
        optD.step()
    for _ in range(Gsteps):
        netG.zero_grad()
        errG = -netD(fake).mean()
        rec_loss = alpha * F.mse_loss(netG(z_opt, prev), real)
        (errG + rec_loss).backward(retain_graph=True)
        optG.step()  # overwrites
    return errG, rec_loss


real = torch.rand(1, 3, 12, 12) * 2 - 1
netD, netG = PatchDiscriminator(), Generator()
errG, rec_loss = train_single_scale(netD, netG, real, torch.randn_like(real))
grads = sum(p.grad.abs().sum().item() for p in netG.parameters())
print(f"RESULT {errG.item():.5f} {rec_loss.item():.5f} {grads:.5f}")
