# kind: legal
import torch
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(5, 4, requires_grad=True)
y = x + 1
loss = (y * 2).sum() + F.nll_loss(scores := F.log_softmax(x, 1), torch.tensor([0, 1, 2, 3, 0])) * 0
y.data.zero_()
z = x.exp()
loss = loss + (z * 1).sum()
z.detach().clone().data.zero_()
loss.backward()
print(scores.shape)
