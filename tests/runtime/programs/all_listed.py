"""Attaches, and looks whether everything that is changed meanwhile is a row of `outplace debug patches`."""

import fnmatch
import json
import subprocess
import sys
import types

import torch
from pictures import MODULES, life, work, wrapped

OWNERS = dict.fromkeys(MODULES)
OWNERS.update((value, None) for module in MODULES for value in vars(module).values() if isinstance(value, type))


FUNCTIONS = {}
"""The functions that there are at the beginning, by their full names."""


def attributes(is_attached=False):
    """Each attribute by its full name; of each function also its code."""
    found = {}
    for owner in OWNERS:
        is_module = isinstance(owner, types.ModuleType)
        full_name = owner.__name__ if is_module else f"{owner.__module__}.{owner.__qualname__}"
        for name, value in list(vars(owner).items()):
            found[f"{full_name}.{name}"] = value
            for function in () if is_attached else wrapped(value):
                FUNCTIONS[f"{function.__module__}.{function.__qualname__}"] = function
    found.update((f"code of {name}", function.__code__) for name, function in FUNCTIONS.items())
    return found


def differences(before, after):
    changed = {name for name in before.keys() | after.keys() if before.get(name) is not after.get(name)}
    return {name.removeprefix("code of ") for name in changed}


changed = set()
work()
before = attributes()
work()
by_itself = differences(before, attributes())
before = attributes()
done = subprocess.run([sys.executable, "-m", "outplace", "debug", "patches", "--json"], capture_output=True, check=True)
targets = [target for row in json.loads(done.stdout) for target in row["target"].split(", ")]
for way in ("watch", "marks"):
    life(way, True, lambda: changed.update(differences(before, attributes(is_attached=True))))
unlisted = {name for name in changed - by_itself if not any(fnmatch.fnmatchcase(name, one) for one in targets)}
assert not unlisted, sorted(unlisted)
assert len(changed) > 500, len(changed)
assert torch.Tensor.add_ is torch._C.TensorBase.add_
print("all are listed")
