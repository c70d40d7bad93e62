"""Memory over time, before and after a change: the bytes alive during each operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from outplace.reclaim.observe.recording import Recording

Life = tuple[int, int]
"""From which operation to which a storage is alive, both included."""


@dataclass
class Change:
    """What a rewrite does to storages: some live shorter or longer, some are never made."""

    lives: dict[int, Life] = field(default_factory=dict)
    merged: dict[int, int] = field(default_factory=dict)
    """Storages that are never made, and the one that each lies in instead."""
    keeps: frozenset[int] = frozenset()
    """Storages that must not be overwritten now: the rewritten operation needs them for its backward."""
    gaps: dict[int, Life] = field(default_factory=dict)
    """Times in which a storage is not there: what it has is computed again after them."""
    longer: dict[int, int] = field(default_factory=dict)
    """Storages that live on up to an operation."""

    def goes_with(self, other: Change) -> bool:
        """Can both changes be applied? Not if one overwrites or recomputes what the other keeps."""
        if other is not self and not self.gaps.keys().isdisjoint(other.gaps):
            return False
        return self.keeps.isdisjoint(other.merged.values()) and other.keeps.isdisjoint(self.merged.values())


@dataclass(frozen=True)
class Curve:
    """The bytes that were alive during each operation."""

    values: list[int]

    @property
    def peak(self) -> int:
        """The highest value."""
        return max(self.values, default=0)

    @property
    def moment(self) -> int:
        """The first operation at the peak."""
        return self.values.index(self.peak) if self.values else 0


class Account:
    """The memory of one device."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._lives: dict[int, Life] = {}
        for number, storage in enumerate(recording.storages):
            if storage.device == recording.device:
                died = recording.last if storage.died is None else storage.died
                born = min(storage.born, recording.last)  # an operation that failed counts for nothing
                self._lives[number] = (born, max(born, min(died, recording.last)))

    def life(self, storage: int) -> Life | None:
        """The original lifetime of a storage; None on another device."""
        return self._lives.get(storage)

    def nbytes(self, storage: int) -> int:
        """The size of a storage in bytes."""
        one = self._recording.storages[storage]
        return one.nbytes + one.slack

    def curve(self, changes: Iterable[Change] = ()) -> Curve:
        """Memory over time with these changes applied."""
        lives, gaps = self._changed(list(changes))
        steps = [0] * (len(self._recording.operations) + 1)
        for storage, (born, died) in lives.items():
            size = self.nbytes(storage)
            steps[born] += size
            steps[died + 1] -= size
            if storage in gaps:
                gone, back = max(gaps[storage][0], born), min(gaps[storage][1], died)
                if gone <= back:
                    steps[gone] -= size
                    steps[back + 1] += size
        alive = accumulate(steps[:-1])
        return Curve([n + op.workspace for n, op in zip(alive, self._recording.operations, strict=True)])

    def _changed(self, changes: Sequence[Change]) -> tuple[Mapping[int, Life], Mapping[int, Life]]:
        """The lifetimes of all storages, and the gaps in them."""
        lives = dict(self._lives)
        merged: dict[int, int] = {}
        gaps: dict[int, Life] = {}
        for change in changes:
            merged.update(change.merged)
            for storage, gap in change.gaps.items():
                gaps[storage] = gap
            for storage, (born, died) in change.lives.items():
                if storage in lives:
                    was = lives[storage]
                    lives[storage] = (max(born, was[0]), min(died, was[1]))
        for storage, host in sorted(merged.items(), reverse=True):  # the last of a chain first
            if storage in lives and host in lives:
                own, life = lives.pop(storage), lives[host]
                lives[host] = (life[0], max(life[1], own[1]))
                if storage in gaps and life[1] < gaps[storage][0]:
                    gaps[host] = gaps[storage]
        for change in changes:
            for storage, end in change.longer.items():
                host = merged.get(storage, storage)
                if host in lives:
                    lives[host] = (lives[host][0], max(lives[host][1], end))
                    # what one block needs as its input is there, whatever makes it again
        return lives, gaps

    def alive_at(self, moment: int) -> list[int]:
        """The storages alive during an operation, largest first."""
        alive = [number for number, (born, died) in self._lives.items() if born <= moment <= died]
        return sorted(alive, key=self.nbytes, reverse=True)

    def standing(self) -> int:
        """Bytes at the peak that are not activations: parameters, gradients, optimizer state."""
        return sum(self.nbytes(number) for number in self._standing())

    def kept(self) -> int:
        """Bytes at the peak that are saved for backward, without parameters."""
        standing = self._standing()
        alive = self.alive_at(self.curve().moment)
        return sum(self.nbytes(n) for n in alive if n in self._recording.savers and n not in standing)

    def _standing(self) -> set[int]:
        """Storages at the peak that stay until the end, and gradients. Graphs that are never freed do not count."""
        last, moment = self._recording.last, self.curve().moment
        inputs = (tensor for operation in self._recording.operations for tensor in operation.inputs)
        storages = {
            tensor.storage for tensor in inputs if not tensor.leaf and not tensor.view
        }  # a weight's view is no leaf
        gradients = {number for clearing in self._recording.clearings for number in clearing.storages}
        alive = {n: died for n, (born, died) in self._lives.items() if born <= moment <= died}
        return {n for n, died in alive.items() if n in gradients or (died >= last and n not in storages)}
