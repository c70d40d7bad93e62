"""Code that works must not be called wrong: torch's own modules, optimizers and distributions."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from outplace.source.analysis import check_file
from outplace.source.project import Project


@pytest.mark.parametrize("part", ["nn", "optim", "distributions"])
def test_no_error_in_torch_itself(part: str) -> None:
    torch = find_spec("torch")
    assert torch is not None and torch.origin is not None
    project = Project()
    errors = []
    for path in sorted((Path(torch.origin).parent / part).rglob("*.py")):
        for finding in check_file(str(path), path.read_text("utf-8"), project).findings:
            if finding.severity == "error":
                errors.append(f"{path}:{finding.site.line}: {finding.message}")
    assert not errors


def test_a_name_that_is_no_text_is_no_error():
    """Python raises a TypeError here; the analysis goes on."""
    program = "import torch\nclass A:\n    pass\nx = torch.ones(3)\nhasattr(A(), 3)\nx += 1\n"
    assert check_file("program.py", program, Project()).findings == []
