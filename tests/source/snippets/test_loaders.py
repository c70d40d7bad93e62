"""Datasets, and what a loader makes of their samples."""

from .snippet import as_test

SNIPPETS = {
    "what a loader makes of a dataset's samples": """
        from torch.utils.data import DataLoader, Dataset, Subset

        class Digits(Dataset):
            def __init__(self, n):
                self.images, self.labels = torch.rand(n, 12), torch.randint(0, 10, (n,))

            def __getitem__(self, i):
                image = self.images[i].clone()
                image -= torch.zeros(3, 12)  # error: shape-dtype
                return image, {"label": self.labels[i], "weight": 1.0}

        def together(samples):
            return torch.stack([image for image, _ in samples])

        net = nn.Linear(12, 10)
        for x, target in DataLoader(Subset(Digits(20), [1, 2, 3]), batch_size=4):
            x += 1
            p = net(x).softmax(-1)
            target["label"] /= 2  # error: shape-dtype
            target["weight"] /= 2
            p *= 0.5  # error: saved
            p.sum().backward()
        for x in DataLoader(Digits(20), collate_fn=together):
            x += 1
            p = net(x).softmax(-1)
            p *= 0.5  # error: saved
            p.sum().backward()
    """,
    "loaders that put nothing together": """
        from torch.utils.data import DataLoader, Dataset, TensorDataset

        class Rows(Dataset):
            def __init__(self):
                self.noise = torch.ones(3)

            def __getitem__(self, i):
                self.noise *= 0.99
                return torch.ones(3) + self.noise

        total = torch.zeros(3)
        for row in DataLoader(Rows(), batch_size=None):
            total += row
        for row in DataLoader(TensorDataset(torch.rand(5, 3)), collate_fn=lambda rows: rows[0][0]):
            total += row
    """,
    "samples that a dataset keeps": """
        from torch.utils.data import DataLoader, Dataset

        class Kept(Dataset):
            def __init__(self, n):
                self.arrays, self.rows = np.random.rand(n, 12).astype(np.float32), torch.rand(n, 12)
                self.done, self.pages = [False] * n, [{"boxes": torch.rand(2, 4)} for _ in range(n)]

            def __getitem__(self, i):
                array = torch.from_numpy(self.arrays[i])
                array -= 0.5  # warning: silent-alias
                row, copied, boxes = self.rows[i], self.rows[i].clone(), self.pages[i]["boxes"]
                row /= 2  # warning: silent-other
                row.clamp_(0, 1)
                copied /= 2
                boxes[:, [0, 2]] *= 0.5  # warning: silent-other
                if not self.done[i]:
                    row.mul_(2)
                    self.done[i] = True
                return array + row, copied

        for x, y in DataLoader(Kept(5), batch_size=2):
            x += y
    """,
}

test_snippet = as_test(SNIPPETS)
