import torch

from .update import apply_update


def fit(actor, critic, steps):
    opt_a = torch.optim.Adam(actor.parameters())
    opt_c = torch.optim.Adam(critic.parameters())
    for _ in range(steps):
        s = torch.randn(4, 3)
        a = actor(s)
        actor_loss = -critic(s, a).mean()
        critic_loss = (critic(s, a.detach()) - 1).pow(2).mean()
        apply_update(opt_c, critic_loss)
        apply_update(opt_a, actor_loss)
