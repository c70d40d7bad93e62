"""Attaches and detaches in every way, and looks whether everything is where it was."""

import builtins

import torch
from pictures import Mode, differences, life, picture, work

for anomaly in (False, True):
    torch.autograd.set_detect_anomaly(anomaly)
    plain = work()
    with Mode():  # torch loads and warns of more, once, if there is a mode
        work()
    before = picture()
    assert work() == plain
    by_itself = differences(before, picture())
    assert len(by_itself) < 10, sorted(by_itself)
    before = picture()
    for way in ("watch", "tags", "marks"):
        for guard in (False, True):
            for time in ("first", "second"):
                assert life(way, guard) == plain
                changed = differences(before, picture()) - by_itself
                assert not changed, (way, guard, time, sorted(changed))
assert not [name for name in vars(builtins) if "outplace" in name]
print("all as before")
