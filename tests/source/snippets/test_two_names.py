"""One memory under two names, of which one is written and the other still wanted as it was."""

from .snippet import as_test

SNIPPETS = {
    "numpy shares the memory": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        a = y.detach().numpy()
        a[0] = 0  # error: silent-alias
        y.sum().backward()
    """,
    "a numpy copy does not": """
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        a = y.detach().numpy().copy()
        a[0] = 0
        y.sum().backward()
    """,
    "arrays of one memory in a list": """
        class System:
            def __init__(self):
                self.x, self.y = torch.ones(3), torch.ones(3)

            def move(self):
                self.x += 0.1  # warning: silent-alias
                self.y += 0.1

        def as_array(tensor):
            return tensor.detach().cpu().numpy()

        system, frames, copies, sums = System(), [], [], {"y": []}
        for _ in range(4):
            system.move()
            frames.append(as_array(system.x))
            copies.append(as_array(system.y).copy())
            sums["y"].append((system.y * 2).numpy())
    """,
    "a list of views of one place": """
        state, last, kept, fine = torch.zeros(2, 3), torch.zeros(3), [], []
        for t in range(4):
            state[0] = torch.rand(3)  # warning: silent-other
            kept.append(state[0])
            fine.append(state[1])
        rows, views = torch.zeros(4, 3), []
        for t in range(4):
            rows[t] = t
            views.append(rows[t])
        for other in input():
            other[0] = 1
            views.append(other[0])
    """,
    "numbers that are counted up and appended": """
        def offsets(sizes, start):
            found = []
            for size in sizes:
                found.append((start, size))
                start += size
            return found

        def totals(values: torch.Tensor):
            total, found = torch.zeros(3), []
            for value in values:
                total += value  # warning: silent-other
                found.append(total)
            return found
    """,
    "a kept state that is copied onto itself": """
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        before = net.state_dict()
        for _ in range(2):
            loss = net(torch.ones(3)).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()  # error: silent-other
            net.load_state_dict(before)
    """,
    "what is put back is what is there": """
        class Memory(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("state", torch.zeros(4, 3))
                self.count = torch.zeros(4)

            def write(self, rows, values):
                self.state[rows] = values.detach()  # warning: silent-other
                self.count[rows] += 1

            def keep(self):
                return self.state, self.count.clone()

            def restore(self, state, count):
                self.state = state
                self.count = count

            def grow(self):
                count = self.count
                count += 1
                self.count = count

        memory = Memory()
        kept = memory.keep()
        memory.write([0], torch.ones(1, 3))
        memory.grow()
        memory.restore(*kept)
    """,
}

test_snippet = as_test(SNIPPETS)
