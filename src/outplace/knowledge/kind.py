"""What a rule is: a code, a name, a summary, and the family it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Kind:
    """A rule. `name` is what users type; `code` is the rule's number.

    Most rules are a family of their own. JSON carries the family's name as `kind`.
    """

    code: str
    name: str
    summary: str

    @property
    def family(self) -> str:
        """The name of the family."""
        return self.name


@dataclass(frozen=True)
class SilentRule(Kind):
    """A bug that raises nothing. It belongs to one of the families OUT301, OUT302 and OUT303.

    What a rule does not do is stated: `no_check`, `no_run` and `no_fix` say why.
    """

    of: Literal["silent-data", "silent-alias", "silent-other"]
    message: str = ""
    """What `check` says."""
    check: Literal["error", "warning", ""] = ""
    """The severity of a finding that is sure."""
    no_check: str = ""
    headline: str = ""
    """What `run` says first, where no node has saved the tensor; the family's headline where this is empty."""
    why: str = ""
    """Why the program is wrong, as `run` says it. The detector fills in the {names}."""
    remedy: str = ""
    """What `run` advises where no safe fix is known."""
    holder: str = "autograd"
    """Who still holds the old values, for the picture in the HTML report."""
    kept: bool = False
    """Is the bug a reference that was kept? Then `run` names the statement that kept it."""
    detector: str = ""
    """The module in `runtime/silent/rules`; empty where only `check` finds the bug."""
    after: str = ""
    """The module after whose import the detector can start; empty where that is torch itself."""
    no_run: str = ""
    fix: str = ""
    """The title of the repair."""
    form: str = ""
    """The form that repairs it, by its name in `repair/plan/kinds/silent.py`; empty where that of the family does."""
    no_fix: str = ""

    @property
    def family(self) -> str:
        """The name of the family."""
        return self.of
