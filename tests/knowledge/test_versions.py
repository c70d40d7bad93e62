"""The op table of other versions of torch: the one that is whole, and what differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outplace.knowledge import _table, ops
from outplace.knowledge.versions import installed, numbers

FOLDER = Path(ops.__file__).parent
WHOLE = json.loads((FOLDER / "op_table.json").read_text("utf-8"))
DIFFERENCES = json.loads((FOLDER / "op_table_differences.json").read_text("utf-8"))
MEASURED = sorted(numbers(table["torch"]) for table in (WHOLE, *DIFFERENCES))


def test_each_torch_gets_the_last_table_that_is_not_newer():
    assert _table.table_for(None) == WHOLE
    assert _table.table_for("a build of my own") == WHOLE
    for place, version in enumerate(MEASURED):
        following = MEASURED[place + 1] if place + 1 < len(MEASURED) else (version[0] + 1, 0)
        asked = [(version[0], minor) for minor in range(version[1], following[1])] or [version]
        for major, minor in asked:
            given = _table.table_for(f"{major}.{minor}.1+cu130")["torch"]
            assert numbers(given) == version
    assert numbers(_table.table_for("1.13.1")["torch"]) == MEASURED[0]
    assert numbers(_table.table_for("99.0.0")["torch"]) == MEASURED[-1]


@pytest.mark.parametrize("change", DIFFERENCES, ids=lambda change: change["torch"])
def test_a_difference_holds_only_what_differs(change):
    assert set(change) <= set(WHOLE)
    for part, value in change.items():
        assert value != WHOLE[part]
        for name, entry in value.items() if isinstance(value, dict) else ():
            assert WHOLE[part].get(name) != entry, (part, name)


def test_what_is_known_to_differ():
    """From the release notes: torch 2.15 has neither `cholesky` nor `qr`; `torch.linalg` has both in all versions."""
    old, new = (_table.table_for(version)["ops"] for version in ("2.13.0", "2.15.0"))
    assert {"cholesky", "qr", "linalg.cholesky", "linalg.qr"} <= set(old)
    assert {"linalg.cholesky", "linalg.qr"} <= set(new)
    assert not {"cholesky", "qr"} & set(new)


def test_a_difference_makes_the_one_table_of_the_other(op_tools):
    generate, _, _ = op_tools
    here = {
        "torch": "2.13.0",
        "ops": {"a": {"x": 1}, "b": {}, "c": {}},
        "methods": ["a_", "b_"],
        "nodes": {},
    }
    there = {"torch": "2.15.0", "ops": {"a": {"x": 2}, "b": {}, "d": {}}, "methods": ["a_"], "nodes": {}}
    change = generate.difference(here, there)
    assert change == {"torch": "2.15.0", "ops": {"a": {"x": 2}, "c": None, "d": {}}, "methods": ["a_"]}
    assert _table.changed(here, json.loads(generate.text_of(change))) == there


def test_a_new_table_takes_its_place_among_the_others(op_tools, tmp_path, monkeypatch):
    generate, _, _ = op_tools
    monkeypatch.setattr(generate, "WHOLE", tmp_path / "whole.json")
    monkeypatch.setattr(generate, "DIFFERENCES", tmp_path / "differences.json")

    def table(torch, **more):
        return {"torch": torch, "ops": {"a": {}, **more}}

    def written(data, whole=False):
        for path, text in generate.files(data, whole).items():
            path.write_text(text)
        base, *changes = [json.loads(generate.WHOLE.read_text()), *json.loads(generate.DIFFERENCES.read_text())]
        return [base, *(_table.changed(base, change) for change in changes)]

    generate.WHOLE.write_text(generate.text_of(table("2.13.0")))
    generate.DIFFERENCES.write_text("[]\n")
    new, old, newer = table("2.15.0", b={}), table("2.6.0", c={}), table("2.15.1", d={})
    assert written(new) == [table("2.13.0"), new]
    assert written(old) == [table("2.13.0"), old, new]
    assert written(newer) == [table("2.13.0"), old, newer]
    assert written(newer, whole=True) == [newer, old, table("2.13.0")]


def test_what_differs_is_measured_again(op_tools):
    """In the torch that is installed, if its table is there."""
    torch = pytest.importorskip("torch")
    if torch.__version__.partition("+")[0] != ops.torch_version():
        pytest.skip(f"the table was measured on torch {ops.torch_version()}, this is {torch.__version__}")
    generate, _, _ = op_tools
    differing = {name for change in DIFFERENCES for name in change.get("ops", ())}
    wanted = {name for name in differing if not name.startswith("nn.") or name.startswith("nn.functional.")}
    found, _ = generate.database(wanted)
    for name in wanted:
        shipped = ops.table()["ops"].get(name)
        assert uncalled(found.get(name)) == uncalled(shipped), name


def uncalled(entry):
    """Without the examples, which are made in another step."""
    if not isinstance(entry, dict):
        return entry
    return {key: uncalled(value) for key, value in entry.items() if key != "call"}


def test_the_version_is_read_without_an_import():
    torch = pytest.importorskip("torch")
    assert installed() == torch.__version__
