"""Diagnoses for the tests of the HTML report, made without torch."""

from __future__ import annotations

from outplace.model import Diagnosis, Fix, Graph, GraphEdge, GraphNode, Mutation, SavedTensor, Site, Tensor

SOURCE = """\
import torch

def forward(x, w):
    h = torch.exp(x @ w)
    y = h * 2  # doubled
    h += 1
    return (y + h).mean()

loss = forward(torch.ones(2, 3), w)
loss.backward()
"""

DIFF = """\
--- a/train.py
+++ b/train.py
@@ -3,5 +3,5 @@
 def forward(x, w):
     h = torch.exp(x @ w)
     y = h * 2  # doubled
-    h += 1
+    h = h + 1
     return (y + h).mean()
"""


def site(line: int, text: str, function: str = "forward", file: str = "train.py") -> Site:
    column = SOURCE.splitlines()[line - 1].index(text) if text in SOURCE.splitlines()[line - 1] else 0
    return Site(file, line, line, column, column + len(text), function, text)


def saved(name: str = "h", file: str = "train.py", fix: Fix | None = None) -> Diagnosis:
    """`h` was kept by exp, then overwritten by `h += 1`; six nodes are drawn of a graph of twenty."""
    at = {
        "exp": site(4, "torch.exp(x @ w)", file=file),
        "mm": site(4, "x @ w", file=file),
        "+=": site(6, "h += 1", file=file),
        "mean": site(7, "(y + h).mean()", file=file),
    }
    nodes = (
        GraphNode("MeanBackward0", 14, at["mean"], (GraphEdge(1),)),
        GraphNode("AddBackward0", 13, at["mean"], (GraphEdge(2), GraphEdge(3, 9))),
        GraphNode("AddBackward0", 3, at["+="], (GraphEdge(3),)),
        GraphNode("ExpBackward0", 1, at["exp"], (GraphEdge(4),)),
        GraphNode("MmBackward0", 0, at["mm"], (GraphEdge(5),)),
        GraphNode("AccumulateGrad", None, None, (), "w"),
    )
    return Diagnosis(
        kind="saved",
        code="OUT201",
        error="one of the variables needed for gradient computation has been modified by an inplace operation",
        tensor=Tensor(name, (2, 3), "float32"),
        why="exp keeps its result for its backward. It was overwritten after that.",
        raised_at=site(10, "loss.backward()", "<module>", file),
        saved_by=SavedTensor("ExpBackward0", "result", 0, at["exp"], 1),
        mutations=(Mutation("__iadd__", at["+="], 1, moment=3),),
        fixes=(fix or Fix("Write `+` out of place", "safe", DIFF), Fix("Think", "suggestion")),
        graph=Graph(nodes, 20),
    )


def refused() -> Diagnosis:
    """A leaf that PyTorch did not let be written."""
    here = Site("leaf.py", 3, 3, 0, 6, "<module>", "w += 1")
    made = Site("leaf.py", 1, 1, 0, 30, "<module>", "w = torch.ones(3, requires_grad=True)")
    error = "a leaf Variable that requires grad is being used in an in-place operation."
    return Diagnosis(
        "leaf", "OUT101", error, Tensor("w", (3,)), "why", here, mutations=(Mutation("__iadd__", here),), made_at=made
    )


def silent() -> Diagnosis:
    """A write through `.data`."""
    wrote = site(6, "h += 1")
    return Diagnosis(
        "silent-data",
        "OUT301",
        "no error is raised",
        Tensor("h", (2, 3), "float32"),
        "why",
        saved_by=SavedTensor("ExpBackward0", "result", None, site(4, "torch.exp(x @ w)"), 1),
        mutations=(Mutation("clamp_", wrote, moment=3),),
    )


def sources() -> dict[str, dict[str, str]]:
    """As a JSON report has them."""
    return {"train.py": {str(number): text for number, text in enumerate(SOURCE.splitlines(), 1)}}
