"""The environment variables of outplace: each is named, typed and read here and nowhere else.

A value that is not understood raises an error that lists the good ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from typing import Any, ClassVar, Generic, TypeVar

_T = TypeVar("_T")

_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


class Variable(Generic[_T]):
    """One environment variable; `default` is its value where it is not set."""

    expected = ""
    """The good values, as an error message lists them."""

    def __init__(self, name: str, default: _T, purpose: str) -> None:
        self.name, self.default, self.purpose = name, default, purpose
        VARIABLES.append(self)

    def read(self) -> _T:
        """The value in this process."""
        return self._understood(os.environ.get(self.name))

    def take(self) -> _T:
        """The value in this process; its child processes do not inherit it."""
        return self._understood(os.environ.pop(self.name, None))

    def put(self, value: _T, environment: MutableMapping[str, str] | None = None) -> None:
        """Sets the variable in `environment`, or in this process and its child processes."""
        (os.environ if environment is None else environment)[self.name] = self.written(value)

    def written(self, value: _T) -> str:
        """The value as text."""
        return str(value)

    def parse(self, text: str) -> _T | None:
        """What the text stands for; None where it is not understood."""
        raise NotImplementedError

    def _understood(self, text: str | None) -> _T:
        if text is None:
            return self.default
        value = self.parse(text)
        if value is None:
            from outplace.errors import OutplaceError  # click is loaded only where there is something to say

            raise OutplaceError(f"{self.name}={text!r} is not understood. Use {self.expected}, or unset it.")
        return value


VARIABLES: list[Variable[Any]] = []
"""All of them."""


class Flag(Variable[bool]):
    """A variable that is on or off."""

    expected = f"{', '.join(_ON)} (on) or {', '.join(filter(None, _OFF))} (off)"

    def __init__(self, name: str, purpose: str) -> None:
        super().__init__(name, False, purpose)

    def written(self, value: bool) -> str:
        """The value as text."""
        return "1" if value else "0"

    def parse(self, text: str) -> bool | None:
        """What the text stands for."""
        word = text.strip().lower()
        return True if word in _ON else False if word in _OFF else None


class Count(Variable[int]):
    """A variable that holds a whole number above zero."""

    expected = "a whole number above zero"

    def parse(self, text: str) -> int | None:
        """What the text stands for."""
        return int(text) if text.isdecimal() and int(text) > 0 else None


class PathName(Variable[str]):
    """A variable that holds a path; empty where there is none."""

    expected = "a path"

    def __init__(self, name: str, purpose: str) -> None:
        super().__init__(name, "", purpose)

    def parse(self, text: str) -> str | None:
        """What the text stands for."""
        return text


class Choice(Variable[str]):
    """A variable that holds one of several words. The first one is its default."""

    def __init__(self, name: str, words: tuple[str, ...], purpose: str) -> None:
        super().__init__(name, words[0], purpose)
        self._words, self.expected = words, ", ".join(words)

    def parse(self, text: str) -> str | None:
        """What the text stands for."""
        word = text.strip().lower() or self.default
        return word if word in self._words else None


class Link(Variable[str]):
    """A variable that holds the form of an address that opens a line in an editor; empty where there is none."""

    NAMED: ClassVar[dict[str, str]] = {
        **{
            name: f"{name}://file/{{path}}:{{line}}:{{column}}" for name in ("vscode", "vscodium", "cursor", "windsurf")
        },
        "zed": "zed://file/{path}:{line}:{column}",
        "pycharm": "pycharm://open?file=/{path}&line={line}",
    }
    expected = f"{', '.join(NAMED)}, or an address with {{path}} and {{line}}"

    def __init__(self, name: str, purpose: str) -> None:
        super().__init__(name, "", purpose)

    def parse(self, text: str) -> str | None:
        """What the text stands for."""
        word = text.strip()
        if not word or word.lower() in self.NAMED:
            return self.NAMED.get(word.lower(), "")
        names = set(re.findall(r"{([^{}]*)}", word))
        is_address = re.match(r"(?!javascript:|data:)[a-z][a-z0-9+.-]*:", word) is not None
        return word if is_address and {"path", "line"} <= names <= {"path", "line", "column"} else None


COLORS = ("auto", "always", "never")

# What users set
COLOR = Choice("OUTPLACE_COLOR", COLORS, "use colours; auto: only in a terminal")
EDITOR = Link("OUTPLACE_EDITOR", "the editor that the HTML report opens a line in")
ENABLED = Flag("OUTPLACE", "attach to this process and its child processes")
GUARD = Flag("OUTPLACE_GUARD", "look at what every saved tensor holds")
STRICT = Flag("OUTPLACE_STRICT", "raise an error where a gradient is silently wrong")
PURE_PYTHON = Flag("OUTPLACE_PURE_PYTHON", "do without the compiled parts")
DEBUG = Flag("OUTPLACE_DEBUG", "print the traceback of a fault in outplace itself")

# What the processes of one `outplace run` tell each other
SESSION = PathName("OUTPLACE_SESSION", "the folder where the processes of a session leave their reports")
STARTED_IN = PathName("OUTPLACE_STARTED_IN", "the folder that reports show paths relative to")

# What `outplace run --fix` and `outplace reclaim` ask of the runs that they start
PROOF = PathName("OUTPLACE_PROOF", "the folder of the run that this process belongs to, and is ended with")
EVIDENCE = PathName("OUTPLACE_EVIDENCE", "the file where a run leaves what a proof needs")
SEED = Count("OUTPLACE_SEED", 1, "the seed of every generator that the program does not seed itself")
OVERLAY = PathName("OUTPLACE_OVERLAY", "a file of texts that are compiled in place of the program's files")
REFERENCE = Flag("OUTPLACE_REFERENCE", "keep a copy of everything that is saved for backward")
RECLAIM = PathName("OUTPLACE_RECLAIM", "the folder where a run leaves its account of memory")
STEPS = Count("OUTPLACE_STEPS", 3, "stop after this many optimizer steps")
LEDGER = Flag("OUTPLACE_LEDGER", "keep an account of memory")
EXACT = Flag("OUTPLACE_EXACT", "use the CUDA algorithms that give the same bits in every run")


def check() -> None:
    """Raises an error if some variable holds a value that is not understood."""
    for variable in VARIABLES:
        variable.read()


def without_ours(environment: MutableMapping[str, str]) -> dict[str, str]:
    """The environment as if outplace had not been there."""
    return {name: value for name, value in environment.items() if not name.startswith("OUTPLACE")}
