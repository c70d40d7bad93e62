"""What operations keep for backward, and whether a backward comes that wants it."""

from .snippet import as_test

SNIPPETS = {
    "a result that is kept": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y += 1  # error: saved
        y.sum().backward()
    """,
    "an operation that keeps nothing": """
        w = torch.randn(3, requires_grad=True)
        y = w * 2
        y += 1
        y.sum().backward()
    """,
    "kept only if the other operand requires grad": """
        w = torch.randn(3, requires_grad=True)
        a, b = torch.ones(3), torch.ones(3)
        z = w * a
        a += 1  # error: saved
        u = b * torch.ones(3)
        b += 1
        (z + u).sum().backward()
    """,
    "what a product of matrices keeps": """
        w = torch.randn(2, 2, requires_grad=True)
        p = w * 2
        p -= w @ p  # error: saved
        p.sum().backward()
    """,
    "what recurrent modules keep": """
        rnn, batched, x = nn.GRU(2, 3), nn.GRU(2, 3, batch_first=True), torch.randn(4, 5, 2)
        h, c = torch.zeros(1, 5, 3), torch.zeros(1, 4, 3)
        out, _ = rnn(x, h)
        h += 1  # error: saved
        steps, unturned = torch.zeros(4, 6, 2), torch.zeros(4, 6, 2)
        for t in range(len(x)):
            step, c = batched(steps[:, t : t + 1], c)
            steps[:, t : t + 1] = 1.0  # error: saved
        whole, _ = batched(unturned)
        unturned += 1
        (out.sum() + step.sum() + whole.sum()).backward()
    """,
    "a custom Function keeps what it saves": """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 2 * x * g

        w = torch.randn(3, requires_grad=True)
        y = w * 1
        z = Square.apply(y)
        y.add_(1)  # error: saved
        z.sum().backward()
    """,
    "what a function returns has names for its parts": """
        z = nn.Linear(3, 3)(torch.randn(4, 3))
        best, order = z.max(1).values, z.sort(1).indices
        y = best.square()
        best *= 2  # error: saved
        order += 1
        largest = torch.linalg.eigvalsh(z.t() @ z) + torch.linalg.eigh(z.t() @ z).eigenvalues
        s = torch.linalg.svd(z, full_matrices=False).S
        s += 1  # error: saved
        (y.sum() + best.sum() + largest.sum() + s.sum()).backward()
    """,
    "another type of a tensor": """
        w = torch.randn(3, requires_grad=True)
        z = (w * 2).type(torch.float64).exp()
        z += 1  # error: saved
        if z.type() == "torch.DoubleTensor":
            z.sum().backward()
    """,
    "the data of a packed sequence is no `.data` of a tensor": """
        from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
        rnn = nn.GRU(3, 4, batch_first=True)
        packed = pack_padded_sequence(torch.randn(2, 5, 3), torch.tensor([5, 3]), batch_first=True)
        packed.data.mul_(0.5)
        hidden, _ = rnn(packed)
        size = hidden.data.pow(2).mean()
        hidden.data.mul_(0.5)  # error: saved
        again = PackedSequence(hidden.data * 2, hidden.batch_sizes)
        again.data.add_(1)
        (pad_packed_sequence(again)[0].sum() + size).backward()
    """,
    "nobody goes backward": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y += 1
        print(y)
    """,
    "a backward before the write": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y.sum().backward()
        y.detach().add_(1)
    """,
    "only the way to the inputs counts": """
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        a, b = x.exp(), w.tanh()
        loss = (a + b).sum()
        a += 1  # error: saved
        b += 1
        torch.autograd.grad(loss, x)
    """,
    "the loss of each sample is not the loss": """
        out = nn.Linear(4, 5)(torch.randn(6, 2, 4)).log_softmax(-1)
        lengths = torch.tensor([6, 6]), torch.tensor([2, 2])
        loss = F.ctc_loss(out, torch.ones(2, 2, dtype=torch.long), *lengths, reduction="sum")
        loss /= 2
        loss.backward()
    """,
    "what vmap hands to a function is one of a batch": """
        def moved(x, y, index):
            h = x.exp()
            h += y  # error: saved
            k = x * 1
            k += y
            k[index] += 1  # warning: silent-other
            return h.sum() + k.sum()
        rows = nn.Linear(4, 4)(torch.ones(3, 4))
        torch.vmap(moved)(rows, torch.ones(3), torch.tensor([[0, 1], [1, 2], [2, 3]])).sum().backward()
    """,
}

test_snippet = as_test(SNIPPETS)
