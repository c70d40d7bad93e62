"""The events of a running program that the detectors of silent bugs can subscribe to.

Each event is a list of the functions to call. The list is empty while no detector subscribes, so an event without
subscribers costs one test of an empty list. A detector subscribes to an event `x` by having a method `on_x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Listeners = list[Callable[..., None]]


class Events:
    """The functions to call for each event."""

    def __init__(self) -> None:
        # Events from marks in the user's code. `frame` is the user's frame.
        self.appended: Listeners = []
        """(tensor, frame): a tensor that has been written before is about to be appended to a list."""
        self.memory_appended: Listeners = []
        """(value, frame): a numpy array, or a tensor over memory of another owner, is about to be appended."""
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
        """(value, frame): the `source` of the same call, in the same frame."""
        self.compared: Listeners = []
        """(one, other, frame): two tensors of one address meet in a difference, a distance or a loss."""
        self.first_network: Listeners = []
        """(network, frame): `for a, b in zip(network.parameters(), other.parameters())`, where the loop writes."""
        self.second_network: Listeners = []
        """(network, frame): the second network of the same loop."""
        self.indexed: Listeners = []
        """(parts, place): the parts of the index in `y[index] += v`, if at least one of them is a tensor."""
        self.owner: Listeners = []
        """(module, name, place): a statement writes into `module.name`."""
        self.array_written: Listeners = []
        """(array, place): a numpy array that may share memory with a tensor is about to be written."""
        # Events from patches of torch.
        self.array_taken: Listeners = []
        """(tensor, frame): a tensor was made over existing memory, such as `torch.from_numpy(array)`."""
        self.untracked_write: Listeners = []
        """(write, alias): a write through an untracked alias."""
        self.special_write: Listeners = []
        """(write, tensor): a write to a tensor in `tensor_writes.special`."""
        self.plain_write: Listeners = []
        """(write, tensor): a write to a tensor that requires no grad."""
        self.graph_write: Listeners = []
        """(write, tensor): a write that autograd records, or that it refuses."""
        self.no_grad_write: Listeners = []
        """(write, source): a write to a node's result, while no grad is recorded."""
        self.data_assigned: Listeners = []
        """(tensor, value, frame, sampled): `tensor.data = value` is about to run."""
        self.state_dict: Listeners = []
        """(module): `module.state_dict()` was called."""
        self.load_state_dict: Listeners = []
        """(module): the module is about to load a state."""
        self.own_state_loaded: Listeners = []
        """(loaded): a module is about to load a state that holds the parameters of a module (see `state_dicts`)."""
        self.optimizer_step: Listeners = []
        """(known, frame): an optimizer has made one of its first steps, or one after a parameter was replaced."""

    def subscribe(self, detectors: Iterable[object]) -> Callable[[], None]:
        """Subscribes each detector to the events that it has a method for. Returns a function that undoes this."""
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
