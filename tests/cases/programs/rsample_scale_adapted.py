# kind: legal
import torch
from torch.distributions import Normal

torch.manual_seed(0)
mean = torch.zeros(3, requires_grad=True)
std = torch.ones(3)
policy = Normal(mean, std)
action = torch.tensor([0.3, 0.1, -0.2])
log_prob = policy.log_prob(action)
std.mul_(0.99)
(-log_prob.sum()).backward()
