"""Writes that do not fit: kinds of dtype and sizes, as far as they are known."""

from .snippet import as_test

SNIPPETS = {
    "integers": """
        n = torch.zeros(3, dtype=torch.long)
        n /= 2  # error: shape-dtype
        n += 1
    """,
    "integers that are to become floats": """
        i = torch.arange(4)
        i.clamp_(0, torch.tensor(2.5))  # error: shape-dtype
        i.clamp_(0, 2)
        i.mul_(0.5)  # error: shape-dtype
        i.div_(2, rounding_mode="floor")
        i.div_(2)  # error: shape-dtype
        i.fill_(0.5)
    """,
    "kinds of dtype": """
        import math
        x, count, mask = torch.rand(3), torch.arange(3), torch.rand(3) > 0.5
        turn = torch.exp(2j * math.pi * x)
        x.mul_(turn)  # warning: shape-dtype
        x.mul_(turn.abs())
        turn *= x
        mask += 1  # error: shape-dtype
        mask &= torch.isfinite(x)
        count += mask
        count += torch.isfinite(x)
        count *= 0.5  # error: shape-dtype
        seen, marks = mask.sum(), mask * 1
        seen += 1
        marks += 2
        chosen = torch.where(mask, 0.0, 1.0)
        chosen /= 2
        torch.fft.fft(x).mul_(x)
        torch.fft.fft(x).abs().mul_(torch.view_as_complex(torch.rand(3, 2)))  # warning: shape-dtype
    """,
    "kinds of dtype that nobody knows": """
        import cmath
        x, counts = torch.rand(4, 3), torch.arange(5)
        turned = torch.exp(x * complex(0, 2))
        turned *= 1j
        listed = torch.tensor([cmath.exp(1j), 1.0])
        listed += 1j
        paired = torch.zeros(3, 2).view(torch.complex64)
        paired += 1j
        bounded, logs, mean = counts.clamp(min=0.5), torch.log1p(counts), counts.mean(dtype=torch.float32)
        bounded /= 2
        logs /= 2
        mean /= 2
        bits = (counts > 2).view(torch.uint8)
        bits += 1
    """,
    "a size that is not known may be several": """
        def table(start: torch.Tensor, rows, columns):
            counts = torch.arange(rows)
            grid = torch.empty(counts.shape + torch.Size([columns]))
            grid[..., 0] = counts
            return grid
    """,
    "sizes whose number is not known": """
        x, sizes = torch.rand(4, 5), input().split()
        x /= torch.norm(x.view(4, -1, *(1 for _ in range(x.dim() - 2))), dim=1, keepdim=True)
        x += torch.randn(4, *sizes) + x.reshape(-1, *map(int, sizes))
        x += torch.randn(4, *[3])  # error: shape-dtype
        whole = torch.ceil(torch.rand(10, 4, 3)).type(torch.int32) * torch.tensor([1, 2, 3])
        whole += torch.ones(4, 3, dtype=torch.int32)
        pairs = torch.hstack((torch.zeros(8, 1), torch.zeros(8, 2)))
        pairs += torch.cat((torch.ones(8, 1), torch.ones(8, 2)), dim=1)
        torch.nn.utils.rnn.pad_sequence([torch.ones(3), torch.ones(2)]).add_(torch.ones(3, 2))
        torch.Tensor(5).copy_(torch.randn(5))
        torch.Tensor([5]).copy_(torch.randn(5))  # error: shape-dtype

        def first(x, rest: torch.Tensor):
            out = torch.zeros((4, *rest.shape))
            out[0] = torch.randn(2, 3)
            return out

        def linear(x, make):
            weight = torch.randn(5, 3)
            for y in (nn.functional.linear(make(x), weight), make(x) * weight):
                out = torch.zeros_like(y)
                out[0] = torch.randn(2, 2, 5)
            return out
    """,
    "one of several shapes": """
        many = int(input())
        x = torch.rand(1, 2, 4) if many else torch.rand(7)
        y = torch.rand(5) if many else torch.rand(7)
        places = torch.zeros(1, 2, 4)
        places[:] = x
        places += x
        places[:] = y  # error: shape-dtype
        places += y  # error: shape-dtype
    """,
    "a test of the number of dimensions": """
        def rows(x):
            x = x if x.ndim == 3 else x.unsqueeze(0)
            out = torch.zeros(1, 2, 4)
            out += x if x.dim() == 3 and x.numel() == 8 else torch.zeros(9)
            return out

        rows(torch.rand(1, 2, 4))
        rows(torch.rand(2, 4))
        wrong = torch.zeros(torch.rand(2, 4).ndim)
        wrong += torch.rand(3)  # error: shape-dtype
    """,
}

test_snippet = as_test(SNIPPETS)
