"""The forms of a repair, one file each: what is written in place, and what to write instead."""
