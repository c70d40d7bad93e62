# kind: multi-view
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(16)


class Resize:
    def __init__(self, size):
        self.size = size

    def __call__(self, img):
        return F.interpolate(img.unsqueeze(0), size=self.size, mode="bilinear").squeeze(0)


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, tensor):
        for t, m, s in zip(tensor, self.mean, self.std):
            t.sub_(m).div_(s)  # overwrites
        return tensor


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img


preprocess = Compose(Resize(16), Normalize([0.5, 0.4, 0.3], [0.2, 0.25, 0.3]))
model = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


def robust_fgsm(image, label, steps=2, eps=0.05, step_size=0.02):
    adv = image.clone().requires_grad_()
    for _ in range(steps):
        logits = model(preprocess(adv).unsqueeze(0))
        loss = F.cross_entropy(logits, label)
        grad, = torch.autograd.grad(loss, adv)
        with torch.no_grad():
            adv = image + (adv + step_size * grad.sign() - image).clamp(-eps, eps)
        adv.requires_grad_()
    return adv, loss, grad


adv, loss, grad = robust_fgsm(torch.rand(3, 24, 24), torch.tensor([1]))
print(f"RESULT {loss.item():.5f} {grad.abs().sum().item():.5f}")
