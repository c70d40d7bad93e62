"""The forms of a repair, one module each: what is written in place, and the rewrite."""
