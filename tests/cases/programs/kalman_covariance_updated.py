# kind: saved
import torch
import torch.nn as nn

torch.manual_seed(5)


class KalmanFilter(nn.Module):
    def __init__(self, n=2, m=1):
        super().__init__()
        self.F = nn.Parameter(torch.eye(n) + 0.1 * torch.randn(n, n))
        self.log_q = nn.Parameter(torch.zeros(n))
        self.log_r = nn.Parameter(torch.zeros(m))
        self.register_buffer("H", torch.ones(m, n))

    def predict(self, x, P):
        x = x @ self.F.T
        P = self.F @ P @ self.F.T
        P.diagonal(dim1=-2, dim2=-1).add_(self.log_q.exp())
        return x, P

    def correct(self, x, P, z):
        S = self.H @ P @ self.H.T + torch.diag(self.log_r.exp())
        K = P @ self.H.T @ torch.linalg.inv(S)
        x = x + (z - x @ self.H.T) @ K.transpose(-1, -2)
        P -= K @ self.H @ P  # overwrites, saves
        return x, P, S

    def forward(self, zs):
        x, P = torch.zeros(1, 2), torch.eye(2)
        nll = 0.0
        for z in zs:
            x, P = self.predict(x, P)
            innovation = z - x @ self.H.T
            x, P, S = self.correct(x, P, z)
            nll = nll + 0.5 * (innovation**2 / S).sum() + 0.5 * torch.logdet(S)
        return nll / len(zs)


kf = KalmanFilter()
zs = torch.randn(4, 1, 1)
loss = kf(zs)
loss.backward()
print(f"RESULT {loss.item():.5f} {kf.F.grad.abs().sum().item():.5f} {kf.log_q.grad.abs().sum().item():.5f}")
