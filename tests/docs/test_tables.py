"""What the docs state: what operations keep, held to torch itself; the modules, held to those there are."""

from __future__ import annotations

import re

import pytest
import torch
from doc_blocks import ROOT

PAGE = ROOT / "docs" / "fine.md"
KEEPS = {"its result": {"result"}, "its input": {"input"}, "both": {"result", "input"}, "nothing": set()}
ROW = re.compile(r"\| (?P<names>`[^|]+) \| (?P<keeps>[^|]+) \|")
CALLS = {
    "batch_norm": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    "cat": lambda x: torch.cat([x, x]),
    "clamp": lambda x: x.clamp(0.2, 0.8),
    "gelu": torch.nn.functional.gelu,
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "max()": lambda x: x.max(),
    "softmax": lambda x: x.softmax(0),
    "x ** 2": lambda x: x**2,
    "x * 2": lambda x: x * 2,
}


def rows():
    table = PAGE.read_text("utf-8").partition("| the operation before |")[2].partition("\n\n")[0]
    for row in ROW.finditer(table):
        if row["keeps"] in KEEPS:
            for name in re.findall(r"`([^`]+)`", row["names"]):
                call = CALLS.get(name) or getattr(torch, name, None)
                if call:
                    yield name, call, KEEPS[row["keeps"]]


def may_not_be_written(call):
    """What backward misses if it is written after the operation."""
    needed = set()
    for written in ("input", "result"):
        x = torch.rand(3, 3, requires_grad=True) * 1
        y = call(x)
        with torch.no_grad():
            (x if written == "input" else y).add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            needed.add(written)
    return needed


def test_what_operations_keep():
    shown = list(rows())
    assert len(shown) >= 15
    assert {name: may_not_be_written(call) for name, call, _ in shown} == {name: kept for name, _, kept in shown}


def pytorchs_words(anomaly):
    x = torch.ones(8, 6, 32, requires_grad=True)
    with torch.autograd.set_detect_anomaly(anomaly), pytest.raises(RuntimeError) as caught:
        gate = x.sigmoid()
        y = gate * x
        gate[:, 0] = 0.0
        y.sum().backward()
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in")
@pytest.mark.parametrize("name", ["README.md", "README.ja.md", "docs/index.md", "docs/ja/index.md"])
def test_pytorch_is_quoted_word_for_word(name):
    text = (ROOT / name).read_text("utf-8")
    (quoted,) = re.findall(r"```text\nRuntimeError: (.*?)\n```", text, re.DOTALL)
    assert " ".join(quoted.split()) == pytorchs_words(anomaly=False)
    for wish in re.findall(r"[“「](The variable in question.*?)[”」]", text):
        assert pytorchs_words(anomaly=True).endswith(wish)


def test_architecture_names_what_there_is():
    package = ROOT / "src" / "outplace"
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    cells = re.findall(r"^\| \d? ?\| ([^|]+) \|", text, re.MULTILINE)
    rooms = {name for cell in cells for name in re.findall(r"`(\w+(?:/|\.py))`", cell)}
    there = {f"{path.name}/" for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"}
    there |= {path.name for path in package.glob("*.py") if not path.name.startswith("_")}
    assert rooms == there
    for name in re.findall(r"`([\w/]+\.(?:py|c))`", text):
        assert list(package.rglob(name)) or (ROOT / name).exists(), name


@pytest.mark.parametrize("page", ["silent.md", "ja/silent.md"])
def test_the_table_of_silent_rules_is_the_registry(page, monkeypatch):
    """Written by tools/rules_page.py."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import rules_page

    assert rules_page.table(page) in (ROOT / "docs" / page).read_text("utf-8")
