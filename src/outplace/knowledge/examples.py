"""Two lines for each operation: a write that is fine after it, and one that makes backward raise.

Which variable may be written was tried out when the table was made; the examples can be run as they stand after
`PRELUDE`, the example's own set-up, and before `Example.backward`.
"""

from __future__ import annotations

from dataclasses import dataclass

from outplace.knowledge.ops import Op, When

PRELUDE = """\
import torch
import torch.nn.functional as F
from torch import nn
"""

SETUPS = {
    "matrix": (
        "x = torch.rand(4, 4, requires_grad=True) * 0.8 + 0.1\nother = torch.rand(4, 4, requires_grad=True) * 0.8 + 0.1"
    ),
    "row": "x = torch.rand(2, 4, 8, requires_grad=True) * 0.8 + 0.1",
    "image": "x = torch.rand(2, 4, 8, 8, requires_grad=True) * 0.8 + 0.1",
    "cube": "x = torch.rand(2, 4, 6, 6, 6, requires_grad=True) * 0.8 + 0.1",
    "definite": "x = torch.rand(4, 4, requires_grad=True)\nx = x @ x.mT + torch.eye(4)",
}


@dataclass(frozen=True)
class Example:
    """A call and a write after it. `raises` says whether backward then raises; `why` says why, in a few words."""

    setup: str
    call: str
    write: str
    raises: bool
    why: str

    @property
    def lines(self) -> tuple[str, str]:
        """The two lines."""
        return self.call, self.write

    @property
    def backward(self) -> str:
        """The line that shows whether the write was fine."""
        return f"{'y' if self.call.startswith(('y =', 'y,')) else 'x'}.sum().backward()"


def written(variable: str) -> str:
    """A write to a variable of an example."""
    return f"{variable}.logical_not_()" if variable == "mask" else f"{variable}.add_(1)"


def examples(op: Op) -> tuple[Example, ...]:
    """At most one example of a write that is fine and one of a write that is not."""
    if op.call is None:
        return ()
    call = op.call
    setup = SETUPS.get(call["setup"], call["setup"])
    code = call["code"].replace("m(", f"{call['module']}(") if "module" in call else call["code"]
    found = []
    for key, raises in (("may", False), ("not", True)):
        if variable := call.get(key):
            why = _why(op, call["vars"].get(variable), raises)
            found.append(Example(setup, code, written(variable), raises, why))
    return tuple(found)


def _why(op: Op, argument: str | None, raises: bool) -> str:
    if raises and op.view == "multi":
        return "views made several at once cannot be written" if argument is None else "its views would be lost"
    if argument is None or (op.writes is not None and argument == op.writes):
        when, what = op.results.get("0") or op.results.get("*"), "its result"
    elif argument.startswith("result "):
        when, what = op.results.get(argument[7:]), f"output {argument[7:]}"
    else:
        when, what = op.saves.get(argument), "its input" if argument == "input" else argument
    if raises:
        return f"backward needs {what}"
    if op.writes is not None and argument == op.writes and op.copies is not None:
        return "backward has a copy of the old values"
    return f"backward does not need {what}" + ("" if when is None else _here(when))


def _here(when: When) -> str:
    return " here" if not when.always else ""
