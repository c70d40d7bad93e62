# kind: saved, tensor: hidden
from .train import main

main()
