"""Small programs, each with what must be found beside the line: `# error: KIND`, `# warning: KIND`, or nothing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

import pytest

from outplace.source.analysis import check_file
from outplace.source.project import Project

PRELUDE = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport numpy as np\n"
_EXPECTED = re.compile(r"#\s*(error|warning): ([\w-]+)")


def as_test(snippets: dict[str, str]) -> Callable[[str], None]:
    """A test of each of these programs, by its name."""

    @pytest.mark.parametrize("name", snippets)
    def test_snippet(name: str) -> None:
        source = PRELUDE + textwrap.dedent(snippets[name])
        expected = {
            (number, *match.groups())
            for number, line in enumerate(source.splitlines(), 1)
            if (match := _EXPECTED.search(line))
        }
        checked = check_file("snippet.py", source, Project())
        found = {(finding.site.line, finding.severity, finding.kind) for finding in checked.findings}
        assert found == expected

    return test_snippet
