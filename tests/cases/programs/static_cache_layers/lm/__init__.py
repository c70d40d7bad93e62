from .cache import StaticCache
from .model import Decoder


def build(layers, width, length):
    return Decoder(layers, width), StaticCache(layers, length, width)
