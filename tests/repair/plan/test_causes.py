"""What the two analyses tell the repair of a bug, beyond its kind."""

from __future__ import annotations

import pytest

from outplace.model import Site
from outplace.repair.facts.bug import Bug
from outplace.repair.plan.chooser import propose
from outplace.repair.syntax.files import Files

SOURCE = "import torch\n\ncounts = torch.zeros(3, dtype=torch.long)\ncounts += torch.rand(3)\n"


def titles(**facts: str) -> list[str]:
    site = Site("a.py", 4, 4, 0, 23, "<module>", "counts += torch.rand(3)")
    files = Files({"a.py": SOURCE}, may_read=False)
    return [candidate.title for candidate in propose(files, Bug("shape-dtype", (site,), **facts))]


@pytest.mark.parametrize(
    "facts, casts",
    [
        ({"error": "result type Float can't be cast to the desired output type Long"}, True),
        ({"cause": "dtype"}, True),
        ({"error": "output with shape [3] doesn't match the broadcast shape [2, 3]"}, False),
        ({"cause": "shape"}, False),
    ],
)
def test_only_a_dtype_is_cast(facts, casts):
    assert ("Cast the update to the dtype of its target" in titles(**facts)) is casts
