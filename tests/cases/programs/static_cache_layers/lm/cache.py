import torch


class StaticCache:
    def __init__(self, layers, length, width):
        self.key_cache = [torch.zeros(length, width) for _ in range(layers)]
        self.value_cache = [torch.zeros(length, width) for _ in range(layers)]

    def update(self, key, value, layer_idx, position):
        k_out, v_out = self.key_cache[layer_idx], self.value_cache[layer_idx]
        index = torch.tensor([position])
        k_out.index_copy_(0, index, key[None])  # overwrites
        v_out.index_copy_(0, index, value[None])  # overwrites
        return k_out, v_out
