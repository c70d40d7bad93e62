"""Generate the op table from the installed torch: what each operation keeps for its backward.

    python tools/generate_op_table.py            write what this torch gives
    python tools/generate_op_table.py --check    compare it with what is there
    python tools/generate_op_table.py --whole    make this torch the one whose table is whole

`src/outplace/knowledge/op_table.json` is the table of one version. `op_table_differences.json` beside it has a row for
each other version: the entries that differ, and null for those that are not there.

Operations come from torch's op database, a list of what it lacks, and the modules of `torch.nn`; every call is measured
(`op_table_measure.py`), and the observations of one operation are put into the simplest condition that explains them:
always, only if some other argument requires grad, only if some argument is a tensor, only for some value of an option,
or sometimes. The output is the same for the same torch. Needs numpy.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
import op_table_names
import op_table_traits
from op_table_conditions import condition
from op_table_examples import find
from op_table_measure import Observation, Sample, flat, observations, observe, strided
from op_table_samples import (
    Signature,
    database_samples,
    extra_samples,
    module_samples,
    op_db,
    write_samples,
)

from outplace.knowledge import _table, versions

FOLDER = Path(__file__).parents[1] / "src" / "outplace" / "knowledge"
WHOLE, DIFFERENCES = FOLDER / "op_table.json", FOLDER / "op_table_differences.json"
RARE = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError)


def conditions(seen: list[Observation]) -> dict[str, Any]:
    """What a set of observations of one form of an operation says: `saves`, `results`."""
    entry: dict[str, Any] = {}
    saves = {}
    for name in sorted({n for o in seen for n in o.saved}):
        saves[name] = condition([o for o in seen if name in o.tensors], lambda o, name=name: name in o.saved)
    if saves:
        entry["saves"] = saves
    if any(o.results for o in seen):
        if any(o.listed for o in seen) and any(o.outputs > 4 for o in seen):
            entry["results"] = {"*": condition(seen, lambda o: bool(o.results))}
        else:
            numbers = sorted({n for o in seen for n in o.results})
            entry["results"] = {
                str(n): condition([o for o in seen if o.outputs > n or not o.listed], lambda o, n=n: n in o.results)
                for n in numbers
            }
    return entry


def shares(seen: list[Observation]) -> list[dict[str, Any]]:
    """Which outputs share memory with which argument, how and when."""
    found = []
    seen = [o for o in seen if o.solid]
    pairs = {(number, name) for o in seen for (number, name) in o.shares}
    by_name: dict[str, set[int]] = {}
    for number, name in pairs:
        by_name.setdefault(name, set()).add(number)
    for name, numbers in sorted(by_name.items()):
        listed = any(o.listed and len([1 for (n, a) in o.shares if a == name]) > 1 for o in seen)
        for number in ["*"] if listed else sorted(numbers):

            def hit(o: Observation, number: Any = number, name: str = name) -> bool:
                return any(a == name and number in ("*", n) for n, a in o.shares)

            kinds = Counter(kind for o in seen for (n, a), kind in o.shares.items() if a == name and number in ("*", n))
            kind = next(k for k in ("multi", "view", "detached", "untracked", "same") if k in kinds)
            found.append(
                {"out": number, "of": name, "how": kind, "when": condition([o for o in seen if name in o.tensors], hit)}
            )
    return found


def entry_of(seen: list[Observation], written: list[Observation]) -> dict[str, Any]:
    entry = conditions([o for o in seen if o.nodes])
    if shared := shares(seen):
        entry["shares"] = shared
    if any(o.expanded for o in seen):
        entry["expanded"] = True
    inner = sorted({name for o in seen for name in o.inner})
    if inner:
        entry["inner"] = inner[:4]
    nodes = Counter(name for o in seen for name in o.grad_fn)
    if nodes:
        entry["nodes"] = [name for name, _ in sorted(nodes.items(), key=lambda kv: (-kv[1], kv[0]))][:3]
    if written:
        entry["inplace"] = inplace_of(written)
    return entry


def inplace_of(written: list[Observation]) -> dict[str, Any]:
    form = conditions(written)
    if (copied := condition(written, lambda o: o.copied)) is not None:
        form["copies"] = copied
    nodes = Counter(name for o in written for name in o.grad_fn)
    form["nodes"] = [name for name, _ in sorted(nodes.items(), key=lambda kv: (-kv[1], kv[0]))][:2]
    return form


def measure(samples: Iterable[Sample], guards: int = 30) -> tuple[list[Observation], list[Observation], int]:
    """Observations of the calls and of their in-place forms, and how many calls failed."""
    seen: list[Observation] = []
    written: list[Observation] = []
    failed = 0
    for number, sample in enumerate(samples):
        if any(t.numel() == 0 for value in sample.tensors.values() for t in flat(value)):
            continue
        try:
            found = observations(sample, guards=number < guards)
        except RARE:
            failed += 1
            continue
        seen += found
        if number < 3 and any(o.shares for o in found):
            # Does the output still share memory if the argument is laid out another way? `view` refuses, that is fine.
            with contextlib.suppress(RuntimeError):
                turned = observe(strided(sample), found[0].grad)
                seen += [turned] if turned is not None else []
        if sample.inplace is not None:
            try:
                written += [o for o in observations(sample, inplace=True, guards=number < guards) if o.nodes]
            except RARE:
                continue
    return seen, written, failed


def database(only: set[str] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """Entries from torch's op database and what it lacks, and the aliases it knows."""
    signatures: dict[str, Signature] = {}
    samples: dict[str, tuple[list[Observation], list[Observation]]] = {}
    plain: set[str] = set()
    aliases: dict[str, str] = {}
    forms: dict[str, Any] = {}
    failures = 0
    for op in op_db():
        name = op.name
        if only is not None and name not in only:
            continue
        for alias in op.aliases:
            aliases[alias.name.removeprefix("torch.")] = name
        dtype = next((d for d in (torch.float32, torch.float64, torch.complex64) if op.supports_dtype(d, "cpu")), None)
        if not op.supports_autograd or dtype is None:
            plain.add(name)
            continue
        torch.manual_seed(0)
        signature = signatures.setdefault(name, Signature(name))
        seen, written, failed = measure(database_samples(op, signature, dtype))
        failures += failed
        mine = samples.setdefault(name, ([], []))
        mine[0].extend(seen)
        mine[1].extend(written)
        forms[name] = op
    extra_params: dict[str, list[str]] = {}
    torch.manual_seed(0)
    for name, params, sample in extra_samples():
        if only is not None and name not in only:
            continue
        extra_params.setdefault(name, params)
        seen, written, failed = measure([sample])
        failures += failed
        mine = samples.setdefault(name, ([], []))
        mine[0].extend(seen)
        mine[1].extend(written)
        if name in plain and any(o.nodes for o in seen):
            plain.discard(name)
    entries: dict[str, Any] = {}
    for name, (seen, written) in sorted(samples.items()):
        entry = entry_of(seen, written)
        signature = signatures.get(name)
        entry["params"] = (signature.params() if signature else []) or extra_params.get(name, ["input"])
        if signature and signature.self_at:
            entry["self_at"] = signature.self_at
        if "inplace" in entry:
            entry["inplace"]["name"] = inplace_name(name)
        defaults = option_defaults(entry, signature or Signature(name))
        if defaults:
            entry["defaults"] = defaults
        entries[name] = entry
    for name in plain - set(entries):
        entries[name] = {"diff": False}
    if failures:
        print(f"  {failures} calls could not be run", file=sys.stderr)
    return entries, aliases


def inplace_name(name: str) -> str:
    last = name.rpartition(".")[2]
    if hasattr(torch.Tensor, f"{last}_"):
        return f"{last}_"
    for holder, prefix in ((torch, ""), (F, "nn.functional.")):
        if hasattr(holder, f"{last}_"):
            return f"{prefix}{last}_"
    return f"{name}(inplace=True)"


def option_defaults(entry: dict[str, Any], signature: Signature | None) -> dict[str, Any]:
    """Default values of the options that conditions speak of."""
    if signature is None:
        return {}
    text = json.dumps(entry)
    used = set(re.findall(r'"option": "(\w+)"', text))
    found: dict[str, Any] = {}
    for name in sorted(used):
        if signature.python is not None and name in signature.python.parameters:
            value = signature.python.parameters[name].default
            if isinstance(value, (bool, str)):
                found[name] = value
            continue
        given = [a for schema in signature.schemas for a in schema.arguments if a.name == name]
        values = [a.default_value for a in given if a.has_default_value()]
        if values:  # where overloads differ (`padding`: 0 or "valid") the default is no word
            found[name] = values[0] if all(isinstance(v, (bool, str)) for v in values) else None
    return found


def writes() -> dict[str, Any]:
    """In-place operations without an out-of-place form: `zero_`, `copy_`, item assignment."""
    groups: dict[str, tuple[list[str], list[Observation]]] = {}
    torch.manual_seed(0)
    for name, params, sample in write_samples():
        known, seen = groups.setdefault(name, (params, []))
        if len(params) > len(known):
            groups[name] = (params, seen)
        seen += [o for o in observations(sample, inplace=True) if o.nodes]
    return {name: inplace_of(seen) | {"params": params} for name, (params, seen) in sorted(groups.items())}


def modules(only: set[str] | None = None) -> dict[str, Any]:
    groups: dict[str, tuple[Sample, list[Observation], list[Observation]]] = {}
    torch.manual_seed(0)
    for name, sample in module_samples():
        if only is not None and name not in only:
            continue
        seen, written, failed = measure([sample])
        if failed:
            print(f"  nn.{name}: could not be run", file=sys.stderr)
        group = groups.setdefault(name, (sample, [], []))
        group[1].extend(seen)
        group[2].extend(written)
    entries = {}
    for name, (sample, seen, written) in sorted(groups.items()):
        entry = entry_of(seen, written)
        entry["params"] = [n for n in sample.tensors if n not in sample.owned]
        if sample.owned:
            entry["state"] = list(sample.owned)
        if any("batch_first" in o.options for o in seen):
            entry["defaults"] = {"batch_first": False}
        if "inplace" in entry:
            entry["inplace"]["name"] = f"nn.{name}(inplace=True)"
        entries[f"nn.{name}"] = entry
    return entries


def add_examples(ops: dict[str, Any], written: dict[str, Any]) -> None:
    """Give each entry a call that was tried out."""
    for name, entry in ops.items():
        if entry.get("diff", True) and (example := find(name, entry["params"], None)):
            entry["call"] = example
        form = entry.get("inplace")
        if form and (example := find(name, entry["params"], form["name"])):
            form["call"] = example
    for name, entry in written.items():
        if example := find(name, entry["params"], name):
            entry["call"] = example


def nodes() -> dict[str, Any]:
    """For each class of autograd node: the ATen operation behind it and which of its saved tensors are results.

    A node is named after its operation (`"".join(part.title() ...)`), so the name is turned back through the schemas.
    """
    by_stem: dict[str, list[Any]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            stem = "".join(part.title() for part in schema.name[6:].split("_"))
            by_stem.setdefault(stem, []).append(schema)
    found = {}
    for name in sorted(dir(torch._C._functions)):
        match = re.fullmatch(r"(\w+)Backward(Autograd[A-Za-z]+)?\d+(_copy)?", name)
        schemas = by_stem.get(match[1], []) if match else []
        if not schemas:
            continue
        names = {s.name[6:] for s in schemas}
        op = min(names, key=lambda n: (n.endswith("_"), n.startswith("_"), n != n.lower(), n))
        arguments = [[a for a in s.arguments if not a.is_out] for s in schemas]
        given = {a.name for one in arguments for a in one}
        tensors = max(([a.name for a in one if "Tensor" in str(a.type)] for one in arguments), key=len)
        saved = [a[11:] for a in dir(getattr(torch._C._functions, name)) if a.startswith("_raw_saved_")]
        roles = {a: "out" for a in saved if a not in given}
        if "self" in saved and tensors == ["self", "other"]:
            roles["self"] = "first"
        found[name] = [op, roles]
    return found


def methods() -> list[str]:
    """Every public in-place method of a tensor."""
    return sorted(n for n in dir(torch.Tensor) if n.endswith("_") and not n.startswith("_"))


def generate() -> dict[str, Any]:
    started = time.time()

    def say(text: str) -> None:
        print(f"[{time.time() - started:5.1f} s] {text}", file=sys.stderr, flush=True)

    say("op database")
    ops, aliases = database()
    say(f"{len(ops)} operations; modules")
    ops |= modules()
    say(f"{len(ops)} with modules; in-place methods, nodes, examples")
    written = writes()
    add_examples(ops, written)
    data = {
        "schema": _table.SCHEMA,
        "torch": torch.__version__.partition("+")[0],
        "ops": ops,
        "writes": written,
        "aliases": {k: v for k, v in aliases.items() if k not in ops},
        "methods": methods(),
        "nodes": nodes(),
    }
    say("traits")
    data |= traits()
    say("done")
    return data


def traits() -> dict[str, Any]:
    """Traits that samples show and those that names tell, in one."""
    measured, named = op_table_traits.collect(inplace_name), op_table_names.collect()
    for trait, names in named.pop("traits").items():
        measured["traits"][trait] = sorted({*measured["traits"].get(trait, ()), *names})
    return measured | named


def text_of(data: dict[str, Any]) -> str:
    """One line an entry: small, and a diff of two versions can be read."""
    parts = []
    for key, value in sorted(data.items()):
        if isinstance(value, dict):
            rows = [
                f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'), sort_keys=True)}"
                for k, v in sorted(value.items())
            ]
            parts.append(f"{json.dumps(key)}:{{\n" + ",\n".join(rows) + "\n}")
        else:
            parts.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def difference(whole: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What `_table.changed` needs to make the one of the other."""
    change: dict[str, Any] = {}
    for part, there in other.items():
        here = whole[part]
        if there != here and isinstance(there, dict):
            change[part] = {name: None for name in here if name not in there}
            change[part] |= {name: entry for name, entry in there.items() if here.get(name) != entry}
        elif there != here:
            change[part] = there
    return change


def files(data: dict[str, Any], whole: bool) -> dict[Path, str]:
    """The text of both files with this table in its place."""
    base, changes = json.loads(WHOLE.read_text("utf-8")), json.loads(DIFFERENCES.read_text("utf-8"))
    tables = [base, *(_table.changed(base, change) for change in changes)]
    version = versions.numbers(data["torch"])
    tables = [data if versions.numbers(table["torch"]) == version else table for table in tables]
    tables += [data] if data not in tables else []
    base = data if whole else tables[0]
    others = sorted(
        (table for table in tables if table is not base), key=lambda table: versions.numbers(table["torch"])
    )
    rows = [text_of(difference(base, table)).strip() for table in others]
    return {WHOLE: text_of(base), DIFFERENCES: "[\n" + ",\n".join(rows) + "\n]\n"}


def main() -> int:
    made = files(generate(), "--whole" in sys.argv)
    different = [path for path, text in made.items() if path.read_text("utf-8") != text]
    if "--check" in sys.argv:
        print("\n".join(f"{path.name} differs from what this torch gives" for path in different) or "up to date")
        return 1 if different else 0
    for path in different:
        path.write_text(made[path], "utf-8")
        print(f"{path} ({len(made[path]) / 1000:.0f} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
