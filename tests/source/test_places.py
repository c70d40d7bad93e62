"""Where a finding stands, held to what `ast` itself says of the same source."""

from __future__ import annotations

import ast

import pytest

from outplace.source.findings import site_of
from outplace.source.graph import Place
from outplace.source.project import Module

SOURCE = """import torch
\x0c
名前 = f(
    "日本", x + 1,
)  # 日本
def f(y): y += g(名前, "é")[0]; return y
x = \'\'\'a
b\x0b\'\'\' + "c"
"""


@pytest.mark.parametrize("source", [SOURCE, SOURCE.rstrip("\n")], ids=["with a line end", "without"])
def test_texts_and_columns(source):
    tree = ast.parse(source)
    module = Module("/p/m.py", source, "m", tree)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.expr, ast.AugAssign, ast.Assign))]
    assert len(nodes) > 20
    lines = source.split("\n")
    for node in nodes:
        site = site_of(Place(module, node, "f"))
        assert site.text == ast.get_source_segment(source, node)
        assert lines[site.line - 1][site.column :].startswith(site.text.split("\n")[0])
        assert lines[site.end_line - 1][: site.end_column].endswith(site.text.split("\n")[-1])
