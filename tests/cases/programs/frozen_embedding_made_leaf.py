# kind: leaf
import torch
import torch.nn as nn

torch.manual_seed(13)
IMAGE_TOKEN = 7


class Backbone(nn.Module):
    def __init__(self, vocab=20, d=8, layers=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(layers))
        self.adapters = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))

    def forward(self, inputs_embeds):
        h = inputs_embeds
        for layer, adapter in zip(self.layers, self.adapters):
            h = h + layer(h) + adapter(h)
        return h


class VisionLanguage(nn.Module):
    def __init__(self):
        super().__init__()
        self.language = Backbone()
        self.vision = nn.Linear(6, 8)

    def enable_input_require_grads(self):
        def make_inputs_require_grads(module, args, output):
            output.requires_grad_(True)

        self._hook = self.language.embed_tokens.register_forward_hook(make_inputs_require_grads)

    def forward(self, ids, pixels):
        inputs_embeds = self.language.embed_tokens(ids)
        image_embeds = self.vision(pixels)
        inputs_embeds[ids == IMAGE_TOKEN] = image_embeds  # overwrites
        return self.language(inputs_embeds)


model = VisionLanguage()
for p in model.language.parameters():
    p.requires_grad_(False)
for p in model.language.adapters.parameters():
    p.requires_grad_(True)
model.enable_input_require_grads()
ids = torch.tensor([[1, 7, 7, 3], [7, 2, 4, 5]])
loss = model(ids, torch.randn(3, 6)).square().mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {model.vision.weight.grad.abs().sum().item():.5f}")
