"""How bugs of each kind are repaired: for one bug the candidates, the best first."""
