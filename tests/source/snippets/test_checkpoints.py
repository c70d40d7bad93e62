"""Blocks that a checkpoint runs again in the backward."""

from .snippet import as_test

SNIPPETS = {
    "what a checkpointed block saves of its own is made anew": """
        from torch.utils.checkpoint import checkpoint
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        for reentrant in (True, False):
            y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=reentrant)
            y += 1
            y.sum().backward()
    """,
    "writes inside a checkpointed block that is not reentrant": """
        from torch.utils.checkpoint import checkpoint
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        def at_the_end(x):
            y = (x * w).exp()
            y += 1  # it is not run again: nothing is saved after it
            return y
        def at_the_end_by_a_product(x):
            y = (x * w).exp()
            y *= w
            return y
        def between(x):
            y = (x * w).exp()
            y += 1  # error: silent-other
            return y.sin()
        def other_rows(x):
            rows = torch.zeros(4, 3)
            rows[0] = x
            for t in range(1, 4):
                rows[t] = torch.tanh(rows[t - 1] * w)
            return rows
        def rows_that_nobody_knows(x, first, second):
            rows = torch.zeros(4, 3) + x
            y = rows[first] * w
            rows[second] = y * w  # warning: silent-other
            return (y * rows).sum() * w
        for block in (at_the_end, at_the_end_by_a_product, between, other_rows):
            checkpoint(block, x, use_reentrant=False).sum().backward()
        checkpoint(rows_that_nobody_knows, x, int(input()), int(input()), use_reentrant=False).sum().backward()
    """,
    "writes inside a checkpointed block that is reentrant": """
        from torch.utils.checkpoint import checkpoint
        x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        def at_the_end(x):
            y = (x * w).exp()
            y += 1  # error: saved
            return y
        checkpoint(at_the_end, x, use_reentrant=True).sum().backward()
    """,
    "an argument of a checkpointed block": """
        from torch.utils.checkpoint import checkpoint
        w = torch.randn(3, requires_grad=True)
        x = w * 2
        y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False)
        x += 1  # error: saved
        (x + y).sum().backward()
    """,
}

test_snippet = as_test(SNIPPETS)
