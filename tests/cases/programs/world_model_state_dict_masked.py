# kind: saved
import torch
import torch.nn as nn

torch.manual_seed(25)


class RSSM(nn.Module):
    def __init__(self, stoch=3, deter=6, act=2, embed=4):
        super().__init__()
        self.cell = nn.GRUCell(stoch + act, deter)
        self.prior = nn.Linear(deter, 2 * stoch)
        self.post = nn.Linear(deter + embed, 2 * stoch)
        self.sizes = stoch, deter

    def initial(self, batch):
        stoch, deter = self.sizes
        return {"stoch": torch.zeros(batch, stoch), "deter": torch.zeros(batch, deter)}

    def sample(self, stats):
        mean, std = stats.chunk(2, -1)
        return mean + (nn.functional.softplus(std) + 0.1) * torch.randn_like(mean)

    def obs_step(self, prev, action, embed, is_first):
        for key in prev:
            prev[key] *= (1.0 - is_first).unsqueeze(-1)  # overwrites
        deter = self.cell(torch.cat([prev["stoch"], action], -1), prev["deter"])
        stoch = self.sample(self.post(torch.cat([deter, embed], -1)))
        return {"stoch": stoch, "deter": deter}, self.prior(deter)  # saves

    def observe(self, embeds, actions, firsts):
        state, states, priors = self.initial(actions.shape[1]), [], []
        for embed, action, first in zip(embeds, actions, firsts):
            state, prior = self.obs_step(state, action, embed, first)
            states.append(torch.cat([state["stoch"], torch.tanh(state["deter"])], -1))
            priors.append(prior)
        return torch.stack(states), torch.stack(priors)


rssm = RSSM()
firsts = torch.zeros(4, 2)
firsts[0] = 1
firsts[2, 1] = 1
states, priors = rssm.observe(torch.randn(4, 2, 4), torch.randn(4, 2, 2), firsts)
loss = states.square().mean() + priors.square().mean()
loss.backward()
print(f"RESULT {loss.item():.5f} {rssm.cell.weight_hh.grad.abs().sum().item():.5f}")
