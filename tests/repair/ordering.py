"""Which rewrites there are for a step between a forward and its backward."""

from __future__ import annotations

import textwrap

from outplace.repair.facts.bug import Moment
from outplace.repair.forms.step_order import reorderings
from outplace.repair.syntax.edits import apply
from outplace.repair.syntax.files import Files


def ways(source: str, **known: object) -> dict[str, str]:
    """What can be done about the line with `# step` before the line with `# backward`: titles, and the new texts."""
    source = textwrap.dedent(source).lstrip("\n")
    lines = source.splitlines()
    step, backward = (next(n for n, line in enumerate(lines, 1) if mark in line) for mark in ("# step", "# backward"))
    files, moment = Files({"a.py": source}, may_read=False), Moment("a.py", step, backward, **known)
    code = files.code("a.py")
    assert code is not None
    return {way.title: apply(source, way.edits) for way in reorderings(code, moment, files)}
