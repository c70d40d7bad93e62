"""How bugs of each kind are repaired: the candidates for one bug, the best first."""
