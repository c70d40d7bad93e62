"""What the analysis knows of one write: who else reaches the memory, and who reads it later.

Plain data. `rebinding` collects it; repairs ask for it, whether a bug was found in the source or by a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Answer = Literal["yes", "no", "unknown"]


Where = Literal["here", "caller", "elsewhere"]


Source = Literal["gradient", "gradient with graph", "network", "trained", "leaf", "unknown"]
"""What a value is made of: a gradient (`with graph`: of `create_graph=True`), a network's result, a trained parameter,
another leaf, something not known."""


@dataclass(frozen=True)
class Question:
    """What if a tensor were copied at this place, before it is written?

    Either what holds it (`x`, `self.h`, `d["k"]`) is bound to the copy before the statement that begins there, or,
    without a holder, the value of the expression there is. Without an end there is no copy: the question is only which
    expressions gave the memory that is written there.
    """

    file: str
    line: int
    column: int
    """As `ast` counts columns."""
    holder: str = ""
    end: tuple[int, int] = (0, 0)
    """Of an expression: the line and column behind it."""
    for_any_caller: bool = False
    """Must it hold for callers and paths, too, that are in none of the files?"""
    until_written: bool = False
    """Is the copy written later, not at once? Then only reads after that write would miss it."""


class Span(NamedTuple):
    """An expression of a file, as `ast` counts lines and columns."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


Container = Literal["list", "tuple", "set", "dict"]


class Definition(NamedTuple):
    """A function of the project, as `ast` counts lines and columns."""

    file: str
    line: int
    column: int
    bound: bool
    """Is its first argument the object that it is called on?"""


@dataclass(frozen=True)
class CallFacts:
    """What a call runs, in all runs of the analysis that come to it."""

    functions: tuple[Definition, ...] = ()
    """The functions of the project; for a module, its forward."""
    layers: tuple[Span, ...] = ()
    """The calls that have made the torch modules, or the `functools.partial` objects, that run in it."""
    makes_module: Answer = "unknown"
    """Is its result a new module or optimizer?"""


@dataclass(frozen=True)
class LaterRead:
    """The old tensor is read after the write, otherwise than through the holder."""

    file: str
    line: int
    function: str
    text: str
    sure: bool
    """Else what is read only may lie in that memory: the result of an unknown function that was given the tensor."""
    where: Where = "elsewhere"
    """In the function that writes, in one that has called it, or in another one."""
    of_leaf: bool = False
    """Is the tensor that is read a leaf that requires grad, not a view of it?"""
    leaf_written: bool = False
    """Was it a leaf that the statement wrote?"""
    view: str = ""
    """What kind of view is read, if it is one."""

    @property
    def of_attribute(self) -> bool:
        """`model.prompt`: a leaf, read as the attribute that holds it."""
        return self.of_leaf and "." in self.text and self.text.replace(".", "").isidentifier()


@dataclass(frozen=True)
class WriteFacts:
    """All runs of the analysis that came to the statement, together."""

    reached: bool = False
    """Has a run come to the statement, and found a tensor there?"""
    unclear: bool = False
    """Has a run found something else there, or been cut short?"""
    from_caller: bool = False
    """Has the tensor come in from a caller that is not known?"""
    held: tuple[str, ...] = ()
    """What holds the old tensor for longer than the function runs: a module, an object, a container, a closure."""
    reads: tuple[LaterRead, ...] = ()
    names: tuple[str, ...] = ()
    """The names and attributes of the function that the memory is known by at the statement."""
    trails: tuple[tuple[Span, ...], ...] = ()
    """For each tensor that is written there: the expressions that gave its memory before, the latest last."""
    used: bool = False
    """Does somebody read what the statement wrote, through the holder?"""
    written: bool = False
    """Is the old tensor written later, through another name?"""
    parameter: Answer = "unknown"
    """Is it a parameter of a module, a tensor that an optimizer steps, or a view of one?"""
    leaf: Answer = "unknown"
    requires_grad: Answer = "unknown"
    both_values: bool = False
    """Does one graph use the value before the write and the value after it?"""
    sources: frozenset[Source] = frozenset()
    """What the written value is made of, other than the tensor itself."""
    trained: bool = False
    """Is the tensor stepped by an optimizer, or its gradient read, at any time?"""
    in_forward: bool = False
    """Has the forward of a module come to the statement?"""

    @property
    def may_rebind(self) -> Answer:
        """May the holder be bound to a new tensor there? Yes, if the old one is not read any more."""
        if self.held or self.reads:
            return "no"
        return "yes" if self.is_known and not self.from_caller else "unknown"

    @property
    def is_known(self) -> bool:
        """Have all runs that came to the statement been able to follow the tensor?"""
        return self.reached and not self.unclear
