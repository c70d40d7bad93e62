"""A quick look at the text of a file: it finds the functions that may write or train. Only these are run.

Each pattern begins with a literal or a set of characters: `re` finds those many times faster than an alternative.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property

from outplace.source.heuristics import hands_on_optimizers, trains_by_name

_NO_TEXT = r"""(?!\s*(?:\[|f?["']))"""
"""After an operator: no list and no string follows, because `+=` extends lists and strings, too."""

_WRITES = [
    re.compile(sign)
    for sign in (
        r"\.\w*[a-z0-9]_\(",  # x.add_(
        rf"[-+*/%&|^]={_NO_TEXT}",  # x += v
        rf"<<={_NO_TEXT}|>>={_NO_TEXT}",
        r"inplace=True(?<!\winplace=True)",
        r"out=(?<!\wout=)",
        r"\.(?:data\b|step\(|numpy\(|(?:real|imag)\s*=[^=])",
        r"_hook\(|operator\.i|inference_mode|max_norm",
        r"\.load_state_dict\((?<!super\(\)\.load_state_dict\()",
        r"\.reset_parameters\((?<!self\.reset_parameters\()",
        r"_foreach_\w*_\(",
        r"ops\.\w+\.\w",  # torch.ops.aten.add_, torch.ops.mine.scale
    )
]
_OPERATOR = re.compile(r"mutates_args|@|\bdef (\w+)\(")
_ITEM = re.compile(r"\](?:\s|\\)*=[^=]")
_HOLDER = re.compile(r"\s*[A-Za-z_][\w.]*\[")
"""`x[i] = v`: how the target ends, and how its line begins."""

_FLAG_BY_POSITION = re.compile(
    r"[lmhtdLMHTD](?i:(?<=l)u6?|(?<=m)ish|(?<=h)ard\w+|(?<=t)hreshold|(?<=d)ropout[123]?d?)"
    r"\((?:[^()]|\([^()]*\)){0,200}?\bTrue\b"
)
"""An in-place flag that is passed by position: `relu(x, True)`."""

_TRAINS = re.compile(r"inplace|backward\(|autograd\.grad|__main__")
"""A program that trains may write in other files, and a module may be built to write."""

_TENSORS = re.compile(
    r"torch\.|Tensor|Parameter|register_|\.(?:weight|bias|data|grad|step)\b|parameters\(|buffers\(|np\.|requires_grad"
    r"|backward\("
)
"""A constructor that contains none of these handles no tensor that it could write."""

_COMPUTED_WEIGHTS = re.compile(r"weight_norm|spectral_norm|parametri[sz]")
"""Signs of weights that are computed at each read: a write to such a weight has no effect."""

_WEIGHT = re.compile(r"\.(?:weight|bias)(?:\[|\.(?!data\b)|[ \t]*(?:[-+*/]=|$))", re.MULTILINE)
"""A parameter of a module that may have been handed in."""

_NEWLINE = re.compile("\n")
_CALL_BACKWARDS = re.compile(r"\(\w+")
"""A called function, in the reversed text. Searched forwards, `re` would look at each word."""

Span = tuple[int, int]


class Candidates:
    """The places in one text that may write or train."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._flags = _spans(_FLAG_BY_POSITION, source) if "True" in source else []
        found = [*(span for sign in _WRITES for span in _spans(sign, source)), *_items(source), *self._flags]
        found += self._operators() if "mutates_args" in source else []
        found += _functions(source)
        if not _COMPUTED_WEIGHTS.search(source):  # else `nn.init.zeros_(layer.weight)` may have no effect
            found = [span for span in found if not source.endswith("init", 0, span[0])]
        self._writes = sorted(found)
        self._lines: list[int] | None = None

    def worth_checking(self) -> bool:
        """True if there can be anything to find."""
        return bool(self._writes) or self._trains()

    def _trains(self) -> bool:
        source = self._source
        return _TRAINS.search(source) is not None or trains_by_name(source) or hands_on_optimizers(source)

    def writes(self, first: int, last: int) -> bool:
        """True if there is a write or a backward between these lines."""
        return self._within(self._writes, first, last) or self._holds("backward(", first, last)

    def lines_of_writes(self, first: int, last: int) -> list[int]:
        """Returns the lines between these two on which a write begins."""
        start, end = (bisect_left(self._writes, (self._offset(line),)) for line in (first, last + 1))
        assert self._lines is not None
        return [bisect_right(self._lines, place) - 1 for place, _ in self._writes[start:end]]

    def reads_weights(self, first: int, last: int) -> bool:
        """True if a weight or a bias may be written between these lines, or gets another name there."""
        return _WEIGHT.search(self._source, self._offset(first), self._offset(last + 1)) is not None

    def builds_writers(self, first: int, last: int) -> bool:
        """True if modules that may be built to write are mentioned between these lines."""
        return self._holds("inplace", first, last) or self._within(self._flags, first, last)

    def called(self, first: int, last: int) -> set[str]:
        """Returns the names of the functions that are called between these lines."""
        calls = self._calls
        start, end = (bisect_left(calls, (self._offset(line), "")) for line in (first, last + 1))
        return {name for _, name in calls[start:end]}

    def is_called(self, name: str) -> bool:
        """True if a function of this name is called anywhere."""
        return name in self._names_called

    @cached_property
    def _names_called(self) -> set[str]:
        return {name for _, name in self._calls}

    @cached_property
    def _calls(self) -> list[tuple[int, str]]:
        """The position and the name of each called function, in order."""
        source, found = self._source, []
        for call in _CALL_BACKWARDS.finditer(source[::-1]):
            start = len(source) - call.end()
            if source[max(start - 4, 0) : start] != "def ":
                found.append((start, call[0][:0:-1]))
        return found[::-1]

    def _operators(self) -> Iterator[Span]:
        """Yields the calls of the `torch.library` operators that are defined here."""
        names: set[str] = set()
        declared = False
        for sign in _OPERATOR.finditer(self._source):
            if declared and sign[1]:
                names.add(sign[1])
            declared = sign[0] == "mutates_args"
        return ((place, place + len(name)) for place, name in self._calls if name in names)

    def handles_tensors(self, first: int, last: int) -> bool:
        """True if a constructor uses tensors between these lines. Most get only numbers and names."""
        return _TENSORS.search(self._source, self._offset(first), self._offset(last + 1)) is not None

    def _within(self, spans: list[Span], first: int, last: int) -> bool:
        start, end = self._offset(first), self._offset(last + 1)
        for place in range(bisect_left(spans, (start, start)), len(spans)):
            if spans[place][0] >= end:
                return False
            if spans[place][1] <= end:
                return True
        return False

    def _holds(self, word: str, first: int, last: int) -> bool:
        return self._source.find(word, self._offset(first), self._offset(last + 1)) >= 0

    def _offset(self, line: int) -> int:
        """Returns the offset at which a line starts. Lines count from 1."""
        if self._lines is None:
            self._lines = [0, 0, *(found.end() for found in _NEWLINE.finditer(self._source))]
        return self._lines[line] if line < len(self._lines) else len(self._source)


def _spans(sign: re.Pattern[str], source: str) -> list[Span]:
    return [found.span() for found in sign.finditer(source)]


def _functions(source: str) -> Iterator[Span]:
    """Yields calls of functions that may be operators of `torch.library` by their names, such as `scale_`."""
    place = source.find("_(")
    while place >= 0:
        start = place
        while source[start - 1 : start].isidentifier() or source[start - 1 : start].isdigit():
            start -= 1
        named = source[place - 1 : place].isalnum()
        if named and source[start - 1 : start] != "." and source[max(start - 4, 0) : start] != "def ":
            yield start, place
        place = source.find("_(", place + 1)


def _items(source: str) -> Iterator[Span]:
    """Yields item assignments, each with its line from the start. A long line is counted once."""
    line = seen = closed = 0
    holder = _HOLDER.match(source)
    for found in _ITEM.finditer(source):
        start, end = found.span()
        newline = source.rfind("\n", seen, start)
        if newline >= 0:
            line, seen, closed = newline + 1, newline + 1, 0
            holder = _HOLDER.match(source, line)
        closed += source.count("]", seen, start) - source.count("[", seen, start)
        seen = start
        many_lines = closed + source.count("]", start, end) > source.count("[", start, end)
        if many_lines or (holder is not None and holder.end() <= start):
            yield line, end
