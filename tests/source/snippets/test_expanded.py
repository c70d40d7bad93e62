"""Expanded tensors, whose entries lie in the same place."""

from .snippet import as_test

SNIPPETS = {
    "an expanded target": """
        x = torch.zeros(1, 3).expand(4, 3)
        x += 1  # error: expanded
        y = torch.zeros(1, 3).expand(4, 3).clone()
        y += 1
    """,
    "entries of an expanded tensor": """
        n = 3
        x = torch.eye(n).unsqueeze(0).expand(5, n, n)
        for i in range(n):
            x[:, i, :] = torch.ones(5, n)  # error: expanded
        x[..., 1] = torch.ones(5, n)  # error: expanded
        x[0, :, 1] = torch.ones(n)  # warning: silent-other
        x[:, 0] = 1.0
        y = torch.zeros(1, n).expand(1, n)
        y[:, 0] = torch.ones(1)

        def fill(rows):
            z = torch.zeros(1, 3).expand(rows.shape[0], 3)
            z[:, 0] = torch.ones(rows.shape[0])  # warning: expanded
    """,
    "parts of expanded memory": """
        w = torch.randn(3, 5, requires_grad=True)
        a, b, c = ((w * 2).unsqueeze(1).expand(-1, 4, -1) for _ in range(3))
        with torch.no_grad():
            a[:, :2] = torch.zeros(3, 2, 5)  # error: expanded
            b[:, :1] = torch.zeros(3, 1, 5)  # warning: silent-other
            c[:, 3] = torch.zeros(3, 5)  # warning: silent-other
    """,
    "one row of expanded memory": """
        w = torch.randn(3, requires_grad=True)
        x, y = ((w * 2).unsqueeze(0).expand(4, 3) for _ in range(2))
        x[-1, 1:3] -= 0.5
        y[1:] -= 0.5  # error: expanded
        z, part = w.detach().expand(4, 3)[1:], w.detach().expand(4, 3)[:1]
        z[:, 1] = torch.ones(3)  # error: expanded
        part[:, 1] = torch.ones(1)

        def shifted(rows, n):
            z = rows.expand(n, -1)
            z[0] += 1  # warning: saved
            return z

        def shift_one(rows, n):
            z = rows.expand(n, -1)
            z[0] += 1
    """,
    "expanded memory, converted and loaded": """
        pose = torch.eye(4).expand(3, 4, 4).to(torch.rand(3))
        pose[:, :3, 3] = torch.rand(3, 3)  # warning: expanded
        own = torch.eye(4).expand(3, 4, 4).clone().to(torch.rand(3))
        own[:, :3, 3] = torch.rand(3, 3)
        conv = nn.Conv2d(6, 6, 2, groups=6)
        conv.weight.data = torch.ones(1, 1, 2, 2).expand(6, 1, 2, 2)
        conv.load_state_dict(torch.load("checkpoint"))  # error: expanded
        conv.load_state_dict({"bias": torch.zeros(6)}, strict=False)
        conv.load_state_dict(torch.load("checkpoint"), assign=True)
        copied = nn.Conv2d(6, 6, 2, groups=6)
        copied.weight.data = torch.ones(1, 1, 2, 2).repeat(6, 1, 1, 1)
        copied.load_state_dict(torch.load("checkpoint"))
    """,
}

test_snippet = as_test(SNIPPETS)
