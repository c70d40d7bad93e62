# kind: saved
from .train import main

main()
