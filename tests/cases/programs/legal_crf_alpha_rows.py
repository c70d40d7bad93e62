# kind: legal
import torch
import torch.nn as nn

torch.manual_seed(0)


class CRF(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(n, n))

    def partition(self, feats):
        T, n = feats.shape
        alpha = torch.full((T, n), -1e4)
        alpha[0] = feats[0]
        for t in range(1, T):
            alpha[t] = torch.logsumexp(alpha[t - 1].unsqueeze(1) + self.trans, 0) + feats[t]
        return torch.logsumexp(alpha[-1], 0)


emit = nn.Linear(4, 3)
crf = CRF(3)
loss = crf.partition(emit(torch.randn(6, 4)))
loss.backward()
