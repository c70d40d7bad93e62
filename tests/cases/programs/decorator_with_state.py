# kind: saved
import functools

import torch


def normalised(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        result /= result.detach().norm()  # overwrites
        return result

    return wrapper


@normalised
def embed(x, w):
    return torch.softmax(x @ w, -1)  # saves


torch.manual_seed(0)
embed(torch.randn(2, 4), torch.randn(4, 4, requires_grad=True)).prod().backward()
