# kind: custom-view
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(22)


class ConvBNReLU(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.conv(x)
        x = self.bn(x)
        x = self.relu(x)  # overwrites
        return x


class SegNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.low = ConvBNReLU(3, 8, 2)
        self.cat_conv = ConvBNReLU(8, 8)
        self.cls = nn.Conv2d(8, classes, 1)

    def forward(self, x):
        return F.interpolate(self.cls(self.cat_conv(self.low(x))), size=x.shape[-2:], mode="bilinear")


class GradCAM:
    def __init__(self, model, target_layer):
        self.model = model.eval()
        self.activations, self.gradients = None, None
        target_layer.register_forward_hook(self._save_activation)
        target_layer.register_full_backward_hook(self._save_gradient)

    def _save_activation(self, module, args, output):
        self.activations = output.detach().clone()

    def _save_gradient(self, module, grad_input, grad_output):
        self.gradients = grad_output[0].detach()

    def __call__(self, image, category):
        score = self.model(image)[:, category].mean()
        self.model.zero_grad()
        score.backward()
        weights = self.gradients.mean(dim=(2, 3), keepdim=True)
        return score, torch.relu((weights * self.activations).sum(dim=1))


model = SegNet()
cam = GradCAM(model, model.cat_conv.bn)
score, heat = cam(torch.rand(1, 3, 16, 16), category=2)
grads = sum(p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None)
print(f"RESULT {score.item():.5f} {heat.sum().item():.5f} {grads:.5f}")
