"""What is in place from attach to detach: the sections of the patch table, and when each of them opens.

torch is never imported here. If the program has not imported it yet, its section opens right after that import.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Literal

from outplace.knowledge.silent_rules import RULES
from outplace.runtime.errors import dispatch
from outplace.runtime.patches import loaded_code, source_loading
from outplace.runtime.patches.source_loading import bound
from outplace.runtime.patches.table import Patch, Section, Table, Undo, Wait, after_import, after_torch
from outplace.runtime.program import error_hooks
from outplace.runtime.record import log
from outplace.runtime.record.user_files import own_files

if TYPE_CHECKING:
    from outplace.runtime.silent.detectors import Detectors

Way = Literal["marks", "tags"]
"""How the sites of nodes are known: by marks in the source (nearly free), or by a tag on each node (any code)."""

more: list[Section] = []
"""Sections of a process that runs for a purpose (a proof, a measurement of memory)."""


class Attachment:
    """The patches of this process, from attach to detach."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.wants_guard = False
        self.table = Table()
        self.errors = Section("errors", error_hooks.formatting)
        self.uncaught = Section("uncaught errors", error_hooks.ending)
        self.names = Section("marks", source_loading.names)
        self.loaders = Section("loading with marks", source_loading.loaders)
        self.examples = Section("doctest", source_loading.examples, after_import("doctest", "testfile"))
        self.stored = [
            Section(f"code stored by {module}", functools.partial(source_loading.stored_code, module), after)
            for module, function in source_loading.STORING.items()
            for after in [after_import(module, function)]
        ]
        self.torch = Section("torch", self._torch_rows, after_torch, self._with_torch)
        self.dynamo = Section("Dynamo", self._dynamo_rows, after_import("torch._dynamo.eval_frame"))
        self.regions = Section("compiled regions", _region_rows, after_import("torch._dynamo.output_graph"))
        self.later = [
            Section(f"detectors for {module}", functools.partial(self._rows_after, module), after_import(module))
            for module in sorted({rule.after for rule in RULES if rule.after})
        ]
        self.collectives = Section("collectives", _collective_rows, Wait(_process_group_began, _until_process_group))
        self.loaded = Section("code that is loaded", loaded_code.patches, inner=self._tags_if_needed)
        self.tags = Section("tags", _tag_rows)
        self.guard = Section("guard", self._guard_rows)

    def sections(self) -> Iterator[Section]:
        """All sections, open or not. torch must have been imported."""
        yield from (self.errors, self.uncaught, self.names, self.loaders, self.examples, *self.stored)
        yield from (self.torch, self.dynamo, self.regions, *self.later)
        if _has_distributed():
            yield self.collectives
        yield from (self.loaded, self.tags, self.guard)

    def open(self, way: Way) -> None:
        """Puts everything in place that can be by now.

        This is called again if a process that tags starts a program with marks, or the other way round.
        """
        if not self.table.is_open(self.torch):
            self.way = way
        if not self.table.is_open(self.errors) and way == "tags":
            self.table.open(self.uncaught)  # outplace runs a program with marks: it sees uncaught errors anyway
        self.table.open(self.errors, self.names, self.loaders, *self.stored)
        if way == "marks":
            self.table.open(self.examples)
        self.table.open(self.torch, *more)

    def set_guard(self, wanted: bool) -> None:
        """Starts or stops the guard. If torch is not imported yet, the guard starts when it is."""
        self.wants_guard = wanted
        if not wanted:
            self.table.close(self.guard)
        elif self.table.is_open(self.torch):
            self.table.open(self.guard)

    def close(self) -> None:
        """Undoes everything."""
        self.table.close(self.guard)  # it reports what it has found
        self.table.close()

    # -- torch ------------------------------------------------------------------------------------------------------

    def _with_torch(self) -> Iterator[Section]:
        yield from (self.dynamo, self.regions, *self.later)
        if _has_distributed():
            yield self.collectives
        if self.way == "tags":
            yield self.loaded
        if self.wants_guard:
            yield self.guard

    def _torch_rows(self) -> Iterator[Patch]:
        from outplace.runtime.patches import (
            backward,
            dynamo,
            operator_calls,
            optimizer_steps,
            saved_tensor_hooks,
            swap_tensors,
            tensor_writes,
            untracked_writes,
        )
        from outplace.runtime.silent import marks

        why = "The record counts nodes as torch does."
        yield Patch("outplace.runtime.record.log.connect", "callback slot", why, self._connect)
        for part in (
            tensor_writes,
            operator_calls,
            optimizer_steps,
            untracked_writes,
            saved_tensor_hooks,
            swap_tensors,
        ):
            yield from part.patches()
        yield from self._detectors.patches()
        yield from backward.patches(_backward_failed)
        yield from _mark_rows()
        yield from dynamo.torchscript_patches(marks.note_kept, self._without_twins)

    def _connect(self) -> Undo:
        import torch

        own_files.know_torch(torch.__path__[0])
        log.connect(torch._C._autograd._get_sequence_nr, self._tag_from_now_on)
        return lambda: log.connect(torch._C._autograd._get_sequence_nr, _nothing)

    def _tag_from_now_on(self) -> None:
        """A second thread builds a graph. From now on each node gets a tag, since numbers do not identify a thread."""
        import torch

        if torch._C._current_autograd_node() is None:  # not a checkpoint that runs its block again inside backward
            self.tag_all()

    def _tags_if_needed(self) -> Iterator[Section]:
        if loaded_code.unmarked != ():
            yield self.tags

    def tag_all(self) -> None:
        """Each node gets a tag from now on, in all code."""
        if self.table.is_open(self.torch):
            self.table.open(self.tags)
            _tags().always()

    def _without_twins(self) -> None:
        """The program compiles. Dynamo shall see the functions that the program has made."""
        if self.table.is_open(self.loaded):
            self.table.close(self.loaded)
            self.tag_all()

    def _dynamo_rows(self) -> Iterable[Patch]:
        from outplace.runtime.patches import dynamo
        from outplace.runtime.silent import marks

        return dynamo.patches(marks.note_kept, self._without_twins)

    @functools.cached_property
    def _detectors(self) -> Detectors:
        from outplace.runtime.silent.detectors import Detectors

        return Detectors()

    def _rows_after(self, module: str) -> Iterable[Patch]:
        return self._detectors.patches(after=module)

    def _guard_rows(self) -> Iterable[Patch]:
        from outplace.runtime.silent import guard

        return guard.patches(self.way == "marks")


def _nothing() -> None:
    return None


def _mark_rows() -> Iterator[Patch]:
    """The functions that marked code calls and that need torch."""
    from outplace.runtime.patches import complex_parts, tensor_writes, untracked_writes
    from outplace.runtime.silent import marks

    yield bound("OUT", tensor_writes.note_out, "`out=` writes its tensor.")
    yield bound("LEAF", tensor_writes.note_leaf, "The line that makes a leaf is shown in a diagnosis.")
    yield bound("ITEM", untracked_writes.note_array, "An item of a numpy array over a tensor is written.")
    yield bound("ATTRIBUTE", untracked_writes.note_attribute, "An attribute that is a numpy array is written.")
    yield bound("PART", complex_parts.note_part, "`z.real = v` writes a complex tensor.")
    yield bound("INDEX", marks.note_index, "`y[index] += v` loses values where indices repeat.")
    yield bound("KEEP", marks.keeper(), "A tensor is kept in a list, a dict or a context.")
    yield bound("PAIR", marks.note_pair, "Two names of one memory are compared.")
    yield bound("OWNER", marks.note_owner, "A weight that is computed anew is written.")
    yield bound("CAUGHT", _caught, "The program catches an exception by itself.")


def _region_rows() -> Iterable[Patch]:
    from outplace.runtime.patches import dynamo

    return dynamo.region_patches()


def _collective_rows() -> Iterable[Patch]:
    from outplace.runtime.patches import untracked_writes

    return untracked_writes.collectives()


def _has_distributed() -> bool:
    import torch

    return bool(torch.distributed.is_available())


def _process_group_began() -> bool:
    from outplace.runtime.patches import untracked_writes

    return untracked_writes.process_group_began()


def _until_process_group(act: Callable[[], None]) -> Patch:
    from outplace.runtime.patches import untracked_writes

    return untracked_writes.until_process_group(act)


def _tags() -> ModuleType:
    from outplace.runtime.patches import anomaly_tags  # it imports torch

    return anomaly_tags


def _tag_rows() -> Iterable[Patch]:
    rows: Iterable[Patch] = _tags().patches()
    return rows


def _backward_failed(frame: FrameType) -> None:
    error = sys.exc_info()[1]
    if error is not None:
        _tags().hint_as_usual(error)
        dispatch.examine(error, frame, seen=False)


def _caught() -> None:
    """The program caught an exception itself (marked code calls this at the beginning of each handler)."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception):
        from outplace.runtime.patches import tensor_writes

        tensor_writes.leave_step()  # a step that raised did not reach its end
        dispatch.examine(error, caught=True)
