"""What happens in a program that detectors of silent bugs want to know of.

Each event is a list of the functions that are called for it. The list is empty while nobody listens, so an event that
nobody wants costs the look at an empty list. A detector listens to an event `x` by having a method `on_x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Listeners = list[Callable[..., None]]


class Events:
    """Who is called for each event."""

    def __init__(self) -> None:
        # What marked code shows. `frame` is the user's.
        self.appended: Listeners = []
        """(tensor, frame): a tensor that has been written before is about to be appended to a list."""
        self.memory_appended: Listeners = []
        """(value, frame): an array, or a tensor over other memory, is about to be appended."""
        self.stored: Listeners = []
        """(tensor, holder, frame): `holder[key] = tensor`, where the holder is a list or a dict."""
        self.repeated: Listeners = []
        """(tensor): `[tensor] * n`, `dict.fromkeys(keys, tensor)`."""
        self.kept_in_ctx: Listeners = []
        """(tensor, frame): `ctx.name = tensor`."""
        self.gradient_assigned: Listeners = []
        """(tensor, frame): `x.grad = tensor`."""
        self.copy_target: Listeners = []
        """(value, frame): the `value` of `value.copy_(source)`."""
        self.copy_source: Listeners = []
        """(value, frame): the source of the same call, in the same frame."""
        self.first_network: Listeners = []
        """(network, frame): `for a, b in zip(network.parameters(), other.parameters())`, where the loop writes."""
        self.second_network: Listeners = []
        """(network, frame): the other one."""
        self.indexed: Listeners = []
        """(parts, place): the index of `y[index] += v`, if tensors are among its parts."""
        self.owner: Listeners = []
        """(module, name, place): a statement writes into `module.name`."""
        self.array_written: Listeners = []
        """(array, place): an array that may lie over a tensor is about to be written."""
        # What patches of torch show.
        self.untracked_write: Listeners = []
        """(write, alias): a write through an alias that autograd does not know."""
        self.special_write: Listeners = []
        """(write, tensor): a write to one of `tensor_writes.special`."""
        self.data_assigned: Listeners = []
        """(tensor, value, frame, sampled): `tensor.data = value` is about to be done."""
        self.state_dict: Listeners = []
        """(module): its `state_dict()` was taken."""
        self.load_state_dict: Listeners = []
        """(module): it is about to load a state."""
        self.own_state_loaded: Listeners = []
        """(loaded): the same, where the state holds the parameters of a module (see `state_dicts`)."""
        self.optimizer_step: Listeners = []
        """(known, frame): an optimizer has made one of its first steps, or one after a replacement."""

    def subscribe(self, detectors: Iterable[object]) -> Callable[[], None]:
        """Has detectors called for the events that they have a method for; the answer undoes it."""
        added = [
            (listeners, method)
            for detector in detectors
            for name, listeners in vars(self).items()
            if (method := getattr(detector, f"on_{name}", None)) is not None
        ]
        for listeners, method in added:
            listeners.append(method)

        def undo() -> None:
            for listeners, method in added:
                listeners.remove(method)

        return undo


events = Events()
"""The events of this process."""
