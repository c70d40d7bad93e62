# kind: leaf
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class PromptedDecoder(nn.Module):
    def __init__(self, vocab=40, dim=16, n_prompt=4, img_dim=10):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.prompt = nn.Parameter(torch.randn(n_prompt, dim) * 0.02)
        self.vision = nn.Linear(img_dim, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.lm_head = nn.Linear(dim, vocab)

    def prefix(self):
        return self.prompt

    def embed(self, ids, images=None):
        text_embeds = self.prefix()
        if images is not None:
            text_embeds += self.vision(images).mean(dim=0)  # overwrites
        tokens = self.tok(ids)
        lead = text_embeds.unsqueeze(0).expand(ids.shape[0], -1, -1)
        return torch.cat([lead, tokens], dim=1)

    def forward(self, ids, images=None):
        hidden, _ = self.rnn(self.embed(ids, images))
        return self.lm_head(hidden[:, self.prompt.shape[0]:])


model = PromptedDecoder()
ids = torch.randint(0, 40, (3, 7))
images = torch.randn(5, 10)
logits = model(ids[:, :-1], images)
loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
print(f"RESULT {loss.item():.5f} {model.prompt.grad.abs().sum().item():.5f} {model.vision.weight.grad.abs().sum().item():.5f}")
