"""Conditions of the op table: when a call saves something.

Answers are three-valued: True (surely), False (surely not), None (cannot be told from what is known of the call).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple


class _Unknown:
    """An unknown value."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()


class Arg(NamedTuple):
    """What is known of one argument: is it a tensor, does it require grad, its value if it is a constant."""

    tensor: bool | None = None
    grad: bool | None = None
    value: Any = UNKNOWN

    @staticmethod
    def constant(value: Any) -> Arg:
        """An argument that is no tensor and whose value is known."""
        return Arg(False, False, value)


TENSOR = Arg(True, True)
"""A tensor that requires grad."""


class Call(NamedTuple):
    """A call, by formal names. Options not given have the operation's own defaults."""

    args: Mapping[str, Arg]
    options: Mapping[str, Any] = MappingProxyType({})

    def option(self, name: str) -> Any:
        """The value of an option, or UNKNOWN."""
        if name in self.args:
            return self.args[name].value
        return self.options.get(name, UNKNOWN)


@dataclass(frozen=True)
class When:
    """A condition; all its parts must hold. Without parts it always holds.

    Args:
        grad: one of these arguments must require grad.
        tensor: these must be given, as tensors.
        given: these must be given.
        lacks: these must not be given.
        option: an option whose value decides: one of `values`, or none of `excluded`.
        maybe: further values of the option for which it holds only sometimes.
        some: it holds only sometimes even then (it depends on sizes or memory layout).
    """

    grad: tuple[str, ...] = ()
    tensor: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    option: str | None = None
    values: tuple[Any, ...] = ()
    excluded: tuple[Any, ...] = ()
    maybe: tuple[Any, ...] = ()
    some: bool = False

    @staticmethod
    def read(data: Any) -> When:
        """From the table's form: True or a dict."""
        if data is True:
            return ALWAYS
        names = {name: tuple(data.get(name, ())) for name in ("grad", "tensor", "given", "lacks", "maybe")}
        values, excluded = tuple(data.get("in", ())), tuple(data.get("not", ()))
        return When(**names, option=data.get("option"), values=values, excluded=excluded, some=bool(data.get("some")))

    @property
    def always(self) -> bool:
        """Whether there is no condition at all."""
        return self == ALWAYS

    def holds(self, call: Call) -> bool | None:
        """Whether it holds for a call."""
        parts = [*(_is_tensor(call, n) for n in self.tensor), *(_is_given(call, n) for n in self.given)]
        parts += [_not(_is_given(call, n)) for n in self.lacks]
        if self.grad:
            parts.append(_any(call.args[n].grad if n in call.args else False for n in self.grad))
        if self.option is not None:
            parts.append(self._option_holds(call.option(self.option)))
        if any(part is False for part in parts):
            return False
        return None if self.some or any(part is None for part in parts) else True

    def _option_holds(self, value: Any) -> bool | None:
        if value is UNKNOWN:
            return None
        word = value if isinstance(value, (bool, str, int, float)) else None
        if isinstance(word, float) and math.isinf(word):
            word = str(word)  # JSON has no infinity
        if word in self.maybe:
            return None
        if self.excluded:
            return word not in self.excluded
        if word in self.values:
            return True
        # A number the table does not list stands with "any other value" where the table knows of that.
        return None in self.values and not isinstance(word, (bool, str))

    def text(self) -> str:
        """The condition in words, to follow a statement: "", "if other requires grad", "sometimes"."""
        parts = []
        if self.grad:
            parts.append(f"if {_either(self.grad)} {'requires' if len(self.grad) == 1 else 'require'} grad")
        parts += [f"if {name} is a tensor" for name in self.tensor]
        parts += [f"if {name} is given" for name in self.given]
        parts += [f"if {name} is not given" for name in self.lacks]
        if self.option is not None and self.excluded:
            parts.append(f"unless {self.option} is {_either(map(_shown, self.excluded))}")
        elif self.option is not None:
            words = [v for v in self.values if v is not None]
            if None in self.values:
                parts.append(f"for most values of {self.option}")
            else:
                parts.append(f"if {self.option} is {_either(map(_shown, words))}")
        if self.maybe:
            parts[-1] += f", sometimes if it is {_either(map(_shown, self.maybe))}"
        text = " and ".join([*parts[:1], *(part.removeprefix("if ") for part in parts[1:])])
        return ", ".join(filter(None, ["sometimes" if self.some else "", text]))


ALWAYS = When()


def _shown(value: Any) -> str:
    return repr(value)


def _either(words: Iterable[str]) -> str:
    return " or ".join(words)


def _is_tensor(call: Call, name: str) -> bool | None:
    return call.args[name].tensor if name in call.args else False


def _is_given(call: Call, name: str) -> bool | None:
    if name not in call.args:
        return False
    value = call.args[name].value
    if call.args[name].tensor or (value is not UNKNOWN and value is not None):
        return True
    return False if value is None else None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(values: Iterable[bool | None]) -> bool | None:
    found = list(values)
    if any(found):
        return True
    return None if any(value is None for value in found) else False
