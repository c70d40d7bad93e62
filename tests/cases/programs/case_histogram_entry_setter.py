# kind: leaf-view
import torch

torch.manual_seed(6)


class PdfParam:
    def __init__(self, bins):
        self.pdfvec = torch.full((bins,), 1.0 / bins, requires_grad=True)

    def normalised(self):
        return self.pdfvec.clamp_min(1e-6) / self.pdfvec.clamp_min(1e-6).sum()


class Entry:
    def __init__(self, param, key):
        self.param, self.key = param, key

    @property
    def value(self):
        return self.param.pdfvec[self.key]

    @value.setter
    def value(self, value):
        self.param.pdfvec[self.key] = value  # overwrites


def nll(param, samples):
    return -param.normalised()[samples].log().mean()


param = PdfParam(6)
entries = [Entry(param, k) for k in range(6)]
prior = {0: 0.3, 3: 0.25}
for k, v in prior.items():
    entries[k].value = v

opt = torch.optim.SGD([param.pdfvec], lr=0.05)
samples = torch.randint(0, 6, (50,))
for _ in range(3):
    opt.zero_grad()
    loss = nll(param, samples)
    loss.backward()
    opt.step()
print(f"RESULT {loss.item():.5f} {param.pdfvec.grad.abs().sum().item():.5f} {entries[3].value.item():.5f}")
