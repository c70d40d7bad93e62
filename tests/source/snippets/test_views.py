"""Which tensors lie in one memory: views, copies, and what may be either."""

from .snippet import as_test

SNIPPETS = {
    "views share their storage": """
        w = torch.randn(4, 4, requires_grad=True)
        y = w.sigmoid()
        y.t()[0].zero_()  # error: saved
        y.sum().backward()
    """,
    "copies do not": """
        w = torch.randn(4, requires_grad=True)
        y = w.sigmoid()
        z = y.clone()
        z.zero_()
        (y + z).sum().backward()
    """,
    "reshape may or may not share": """
        w = torch.randn(4, 4, requires_grad=True)
        y = w.sigmoid()
        y.to(torch.float64).zero_()  # warning: saved
        y.sum().backward()
    """,
    "kept and written through one tensor, which may be a copy of another": """
        w = torch.randn(3, 4, requires_grad=True)
        h = w * 2
        a, b = h.t().reshape(-1), h.t().reshape(-1)
        y = a[:3].pow(2)
        b.mul_(2)  # warning: saved
        a[2:].mul_(2)  # error: saved
        y.sum().backward()
    """,
    "a product of more than two dimensions copies what is turned round": """
        net, width = nn.Linear(4, 12), torch.randn(2, 3, 4)
        turned = net(width).view(2, 3, 3, 2, 2).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(turned[0], dim=-1), turned[1] * 2
        scores = q @ k.transpose(-2, -1)
        q *= 2  # warning: saved
        (scores + q.sum(-1, keepdim=True)).sum().backward()
        straight = net(width).view(2, 3, 3, 2, 2).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(straight[0].contiguous(), dim=-1), straight[1].contiguous() * 2
        scores = q @ k.transpose(-2, -1)
        q *= 2  # error: saved
        (scores + q.sum(-1, keepdim=True)).sum().backward()
    """,
    "what lies in order, and what does not": """
        w = torch.randn(4, 6, requires_grad=True)
        h = w.exp()
        h.reshape(-1).mul_(2)  # error: saved
        turned = w.exp().t()
        turned.reshape(-1).mul_(2)  # warning: saved
        swapped = torch.randn(4, 6).exp()
        swapped.t_()
        kept = w.t() * swapped
        swapped.reshape(-1).mul_(2)  # warning: saved
        last = (w * 2).contiguous(memory_format=torch.preserve_format).exp()
        last.flatten().mul_(2)  # warning: saved
        (h.sum() + turned.sum() + kept.sum() + last.sum()).backward()
    """,
    "how memory lies that nobody knows": """
        w = torch.ones(3, 4, requires_grad=True)
        h = torch.tensor(np.ones((4, 3)).T)
        loss = (h * w).sum()
        h.reshape(-1).zero_()  # warning: saved
        linear = nn.Linear(4, 3)
        linear.weight.data = torch.randn(4, 3).t()
        y = linear.weight.exp()
        y.reshape(-1).zero_()  # warning: saved
        (loss + y.sum()).backward()
    """,
    "several views by one call": """
        y = torch.randn(4, 2, requires_grad=True) * 1
        a, b = y.chunk(2)
        a.mul_(2)  # error: multi-view
        for row in y:
            row += 1  # error: multi-view
    """,
    "one of several views, of a copy or not": """
        w = torch.randn(6, 4, requires_grad=True)
        for row in (w * 2).reshape(3, 8):
            row += 1  # error: multi-view
        first, second = (part.contiguous() for part in (w * 2).chunk(2))
        first += 1  # warning: multi-view
        (first + second).sum().backward()
    """,
    "a part of several that is perhaps copied, and then another part read": """
        x = torch.randn(2, 3, 4, requires_grad=True) * 1
        a, b = x.split(1, dim=1)[:2]
        flat = a.reshape(-1)
        flat[flat < 0.1] = 0.1  # warning: multi-view
        (b.reshape(-1) / flat).sum().backward()
    """,
    "writes to what an index has copied": """
        class Condensed(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mask", torch.ones(3, 6))

            def drop(self, scores: torch.Tensor):
                self.mask[:, self.mask.sum(0).argsort()[:2]].fill_(0)  # error: silent-other
                self.mask[self.mask.sum(1).argmax()].fill_(0)
                self.mask[scores].fill_(0)
                picked = self.mask[[0, 1]]
                picked.fill_(0)
                picked[0] = 3
                return picked

        x, rows = torch.randn(5, 3), [torch.zeros(3), torch.zeros(3)]
        x[x > 0].zero_()  # error: silent-other
        x[x > 0][0] += 1  # error: silent-other
        x[[0, 1]].mul_(2).add_(1)  # error: silent-other
        x[torch.tensor([1, 2])].view(-1)[0] = 1  # error: silent-other
        x[x > 0] *= 2
        x[2:].mul_(2)
        x[1:][0] = 1
        rows[0].add_(1)
        y = x[x > 0].mul_(2)
    """,
}

test_snippet = as_test(SNIPPETS)
