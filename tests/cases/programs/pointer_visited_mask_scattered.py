# kind: saved
import torch
import torch.nn as nn

torch.manual_seed(19)


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.v = nn.Parameter(torch.randn(d) * 0.3)

    def forward(self, query, ref):
        return torch.tanh(self.q(query).unsqueeze(1) + self.k(ref)) @ self.v


class PointerDecoder(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.embed = nn.Linear(2, d)
        self.cell = nn.GRUCell(d, d)
        self.pointer = Attention(d)
        self.start = nn.Parameter(torch.zeros(d))

    def forward(self, cities):
        batch, n, _ = cities.shape
        ref = self.embed(cities)
        h = ref.mean(1)
        token = self.start.expand(batch, -1)
        visited = torch.zeros(batch, n, dtype=torch.bool)
        logps, tour = [], []
        for _ in range(n):
            h = self.cell(token, h)
            logits = self.pointer(h, ref)
            logits = logits.masked_fill(visited, -1e9)  # saves
            logp = torch.log_softmax(logits, dim=-1)
            choice = logp.argmax(-1)
            visited.scatter_(1, choice.unsqueeze(1), True)  # overwrites
            logps.append(logp.gather(1, choice.unsqueeze(1)).squeeze(1))
            tour.append(choice)
            token = ref[torch.arange(batch), choice]
        return torch.stack(logps, 1).sum(1), torch.stack(tour, 1)


def tour_length(cities, tour):
    ordered = cities.gather(1, tour.unsqueeze(-1).expand(-1, -1, 2))
    return (ordered - ordered.roll(1, dims=1)).norm(dim=-1).sum(1)


model = PointerDecoder()
cities = torch.rand(3, 5, 2)
logp, tour = model(cities)
cost = tour_length(cities, tour)
loss = ((cost - cost.mean()) * logp).mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {model.pointer.q.weight.grad.abs().sum().item():.5f}")
