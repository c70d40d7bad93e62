"""Abstract values: what a name can refer to. They model tensors, and the Python objects that can hold tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from outplace.knowledge.frameworks import is_module_class
from outplace.knowledge.kind import SilentRule
from outplace.source.graph import Family

if TYPE_CHECKING:
    from outplace.source.graph import Node, Path, Place, Storage, Write
    from outplace.source.holders import Update
    from outplace.source.project import Module
    from outplace.source.torch_model.library import Operator


class Value:
    """The base class of all abstract values."""

    __slots__ = ()


Args = list[Value]
Keywords = dict[str, Value]


class Unknown(Value):
    """A value of which nothing is known. Nothing is ever concluded from it."""

    __slots__ = ("activates", "of")

    def __init__(self, of: frozenset[Storage] = frozenset(), activates: bool = False) -> None:
        self.of = of
        """The storages that it may share. Only `rebinding` reads this."""
        self.activates = activates
        """True if it was built with an activation, such as `ConvModule(3, 8, act_cfg=...)`."""


class Plain(Value):
    """A value that is certainly no tensor: a numpy array, a number, a string, a file."""

    __slots__ = ("storage", "sure", "whole")

    def __init__(self, storage: Storage | None = None, whole: bool = True, sure: bool = True) -> None:
        self.whole = whole
        """True if it is the array itself, False if it is a part of it."""
        self.storage = storage
        """The storage that a numpy array shares with a tensor, or None."""
        self.sure = sure
        """True if it certainly shares that storage. `x.cpu()` may be a copy."""


class ArrayPart(Plain):
    """`array[key]` of a numpy array."""

    __slots__ = ("key", "of")

    def __init__(self, of: Plain, key: Value) -> None:
        super().__init__(of.storage, whole=False, sure=of.sure)
        self.of, self.key = of, key


class Const(Value):
    """A known Python constant."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


UNKNOWN = Unknown()
PLAIN = Plain()
NONE = Const(None)
SEVERAL = Unknown()
"""The remaining arguments of `f(*items)`, if the number of items is not known."""


class Tensor(Value):
    """A tensor. A three-valued attribute is True, False or None (not known)."""

    __slots__ = (
        "aliased", "anchor", "assigned", "certain", "dtype", "expanded", "family", "fills_list", "grad", "gradient",
        "has_grad", "held", "inference", "is_none", "known", "leaf", "node", "packed", "parameter", "parts", "read",
        "region", "repeated", "repeats", "replaced", "requires_grad", "sequence", "shallow", "shape",
        "shared_default", "since", "storage", "untracked", "view", "view_sure",
    )  # fmt: skip

    def __init__(
        self,
        storage: Storage,
        requires_grad: bool | None = False,
        node: Node | None = None,
        leaf: bool = False,
        known: bool = True,
        dtype: str | None = None,
        of: Tensor | None = None,
    ) -> None:
        """`of` is the tensor that it is a view of, or whose place it takes."""
        self.storage, self.requires_grad, self.node = storage, requires_grad, node
        self.family: Family = Family() if of is None else of.family
        self.leaf, self.since = leaf, 0
        self.known = known
        """True if it is certainly a tensor. (The parameter of a function may be a number.)"""
        self.dtype = dtype
        """The kind of its dtype (see `dtypes`)."""
        self.certain = True
        """True if it certainly lies in this storage. (`reshape` may copy.)"""
        self.anchor: object | None = None
        """If not certain: an object for its memory. Tensors that certainly share memory have the same anchor."""
        self.view: str | None = None
        """How the view was made: "view", "multi", "nograd", "custom"; None if it is no view."""
        self.view_sure = True
        """True if it is certainly such a view, of this storage or of a copy of it."""
        self.region: tuple[int | slice | str | None, ...] | None = ()
        """The part of the first tensor of its family that it covers (see `regions`); None if not known."""
        self.parts: tuple[tuple[object, Value], ...] = ()
        """The parts that it lies in. Each is a tensor, or a call of `chunk`, with a key (see `regions`)."""
        self.parameter = False
        self.untracked = False
        """True if `.data` made it. Autograd does not see writes through it."""
        self.expanded = False
        self.repeated: frozenset[int] = frozenset()
        """The dimensions that `expand` has enlarged from one element, or has added."""
        self.inference = False
        self.shape: tuple[int | None, ...] | None = None
        """Its sizes (see `shapes`); None if the number of dimensions is not known."""
        self.sequence = False
        """True if it is a PackedSequence, whose `data` is an ordinary tensor."""
        self.packed: bool | None = None
        """True if it is contiguous, so that `reshape` does not copy; None if not known (see `layouts`)."""
        self.gradient: tuple[SilentRule, bool] | None = None
        """For a gradient that a hook received: the rule against writing it, and whether it is certainly shared."""
        self.fills_list = False
        """True if it is every item of a list (`[x] * n`)."""
        self.repeats: bool | None = False
        """For an index: True if it contains an index twice, None if it may."""
        self.has_grad: bool | None = False
        """For a leaf: True if a backward has given it a gradient."""
        self.grad: Tensor | None = None
        """Its gradient, if the program has read it."""
        self.is_none: bool | None = False
        """For a gradient or an argument: True if it is None, None if not known."""
        self.held = False
        """True if an optimizer steps it."""
        self.replaced: Replaced | None = None
        """The tensor that has replaced it in its variable or attribute."""
        self.read: int | None = None
        """For a gradient: the time at which the program read it from its leaf."""
        self.shallow = False
        """True if two modules share it because `copy.copy` made one of them."""
        self.shared_default = False
        """True if it is the default of a parameter. All calls share a default."""
        self.assigned: Place | None = None
        """The place where it was assigned to `grad` of another tensor."""
        self.aliased: Tensor | None = None
        """The tensor that it is an alias of, made by `detach()`, `.data` or `nn.Parameter`."""


class Replaced(NamedTuple):
    """A tensor that has replaced another, the place, and the path of branches on which it did."""

    by: Tensor
    place: Place
    path: Path


Stale = tuple["Tensor", "Write", "Update | None"]
"""A tensor that a holder keeps and that was written through another name; the write; the update (see `holders`)."""


MOST_ITEMS = 1_000
"""The largest number of items that a container keeps."""
MOST_INSIDE = 20_000
"""The largest number of items kept in a container and the containers inside it. Shared items count each time."""


class Items(Value):
    """A list, tuple or set. `rest` stands for the items that are not kept: their number is unknown or too large."""

    __slots__ = ("appended", "copies", "items", "kind", "latest", "rest", "stale")

    def __init__(self, items: list[Value], kind: str = "list", rest: Value | None = None) -> None:
        self.items, self.kind, self.rest = items, kind, rest
        if len(items) > MOST_ITEMS:  # a list that is added to itself in a loop doubles each time
            self.items, self.rest = items[:MOST_ITEMS], UNKNOWN
        self.latest: tuple[Value, Value] | None = None
        """The unknown index that was assigned to last, and the assigned value."""
        self.appended: dict[int, tuple[int, Path]] = {}
        """For each tensor, by its id: when it was first appended, and on which path."""
        self.copies: list[Items | Dictionary | Instance] | None = None
        """This container and its shallow copies. All hold the same items."""
        self.stale: tuple[Stale, ...] = ()


class Dictionary(Value):
    """A dict with constant keys; `rest` stands for the items with unknown keys."""

    __slots__ = ("copies", "items", "latest", "rest", "stale")

    def __init__(self, items: dict[Any, Value] | None = None, rest: Value | None = None) -> None:
        self.items: dict[Any, Value] = items or {}
        self.rest = rest
        self.latest: tuple[Value, Value] | None = None
        """The unknown key that was assigned to last, and the assigned value."""
        self.copies: list[Items | Dictionary | Instance] | None = None
        self.stale: tuple[Stale, ...] = ()


class StateDict(Dictionary):
    """`module.state_dict()`. It holds the parameters themselves, not copies."""

    __slots__ = ("of", "since")

    def __init__(self, items: dict[Any, Value], since: int, of: int) -> None:
        super().__init__(items)
        self.since, self.of = since, of


class Torch(Value):
    """Something of torch, by its full name: a module, function or class; or an operator that the project defines."""

    __slots__ = ("name", "operator")

    def __init__(self, name: str, operator: Operator | None = None) -> None:
        self.name, self.operator = name, operator


class Outside(Value):
    """Something of another library, by its full name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Namespace(Value):
    """A module of the project, by its file. The file is read when a name of the module is first used."""

    __slots__ = ("name", "path")

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name


class Imported(Value):
    """A name imported from a module of the project. It is looked up when it is first used."""

    __slots__ = ("module", "name")

    def __init__(self, module: Namespace, name: str) -> None:
        self.module, self.name = module, name


_NOTHING: dict[str, tuple[Stale, ...]] = {}


class Scope:
    """The names of a running function or module, and the enclosing scope."""

    __slots__ = ("names", "outer", "shared", "stale")

    def __init__(self, outer: Scope | None = None, names: dict[str, Value] | None = None) -> None:
        self.outer, self.names = outer, {} if names is None else names
        self.shared: dict[str, Scope] = {}
        """The names declared `global` or `nonlocal`, each with the scope that it belongs to."""
        self.stale: dict[str, tuple[Stale, ...]] = _NOTHING

    def get(self, name: str) -> Value | None:
        """Returns the value of a name, or None if it is not bound."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.names.get(name)
            if value is not None:
                return value
            scope = scope.outer
        return None

    def set(self, name: str, value: Value) -> None:
        """Binds a name."""
        self.shared.get(name, self).names[name] = value


class Function(Value):
    """A function of the project. `grad` is set by decorators such as `@torch.no_grad()`."""

    __slots__ = (
        "assigned", "brief", "by_level", "defaults", "grad", "keyword_defaults", "kind", "module", "name", "node",
        "owner", "parameters", "results", "scope",
    )  # fmt: skip

    def __init__(self, node: Any, module: Module, scope: Scope, name: str) -> None:
        self.node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda = node
        self.module, self.scope, self.name = module, scope, name
        self.defaults: list[Value] = []
        self.keyword_defaults: dict[str, Value] = {}
        self.grad: str | None = None
        self.kind = "function"
        self.owner: Class | None = None
        self.results: dict[Any, Value] | None = None
        """The results that `functools.cache` keeps, by constant arguments; None if the function is not cached."""
        self.parameters: tuple[list[str], dict[str, Value]] | None = None
        """The names of the positional parameters, and all parameters with unknown values. Computed at first use."""
        self.by_level: set[str] | None = None
        """The parameters that are lists with one tensor for each level. Computed at first use."""
        self.assigned: dict[str, ast.expr] | None = None
        """For a constructor: the expression that it assigns to each attribute. Computed at first use."""
        self.brief: Function | None = None
        """For a decorator: the part of it that has to be run. Computed at first use."""


_MOST_BASES = 300


class Class(Value):
    """A class of the project."""

    __slots__ = ("_lineage", "bases", "fields", "frozen", "module", "name", "names", "node")

    def __init__(self, node: ast.ClassDef, module: Module, bases: list[Value], name: str) -> None:
        self.node, self.module, self.bases, self.name = node, module, bases, name
        self.names: dict[str, Value] = {}
        self.fields: list[str] | None = None
        """The fields of a dataclass, in order."""
        self.frozen = False
        """True if attributes of its objects cannot be set: a named tuple or a frozen dataclass."""
        self._lineage: list[Value] | None = None

    def lineage(self) -> list[Value]:
        """Returns the class and its bases, depth first (classes of the project and of torch), up to a limit."""
        if self._lineage is None:
            found: dict[Value, None] = {self: None}
            for base in self.bases:
                found.update(dict.fromkeys(base.lineage() if isinstance(base, Class) else [base]))
            self._lineage = list(found)[:_MOST_BASES]
        return self._lineage

    def find(self, name: str) -> Value | None:
        """Returns an attribute of the class or of its bases."""
        for base in self.lineage():
            if isinstance(base, Class) and name in base.names:
                return base.names[name]
        return None

    def torch_base(self) -> str | None:
        """Returns the torch class that it inherits from, such as "torch.nn.Module", directly or through a framework."""
        for base in self.lineage():
            if isinstance(base, Torch):
                return base.name
            if isinstance(base, Outside) and is_module_class(base.name):
                return "torch.nn.Module"
        return None


class Instance(Value):
    """An object of a project class."""

    __slots__ = ("cls", "copies", "forward_hooks", "hooked", "names", "pre_hooks", "stale")

    def __init__(self, cls: Class) -> None:
        self.cls = cls
        self.names: dict[str, Value] = {}
        self.forward_hooks: list[Value] = []
        self.pre_hooks: list[Value] = []
        self.hooked = False
        """True if it has a full backward hook. Then its output passes through a custom Function."""
        self.copies: list[Items | Dictionary | Instance] | None = None
        self.stale: tuple[Stale, ...] = ()


class Context(Value):
    """A call of a generator function used as a context manager. Its body runs around the `with` block."""

    __slots__ = ("args", "function", "keywords")

    def __init__(self, function: Function, args: Args, keywords: Keywords) -> None:
        self.function, self.args, self.keywords = function, args, keywords


class Done(Value):
    """A future, or another object that holds a computed result."""

    __slots__ = ("result",)

    def __init__(self, result: Value) -> None:
        self.result = result


class Bound(Value):
    """A method and its receiver, or another callable that is known by name and the object that it is called on."""

    __slots__ = ("function", "receiver")

    def __init__(self, function: Value | str, receiver: Value) -> None:
        self.function, self.receiver = function, receiver


class Partial(Value):
    """A `functools.partial` object: a function and some of its arguments."""

    __slots__ = ("args", "function", "keywords")

    def __init__(self, function: Value, args: Args, keywords: Keywords) -> None:
        self.function, self.args, self.keywords = function, args, keywords


DEFAULT_FACTORY = "default_factory"
"""The function of a `Bound` whose receiver makes the default of a dataclass field."""


class Super(Value):
    """`super()`: the receiver, and the class after which the lookup continues."""

    __slots__ = ("after", "receiver")

    def __init__(self, receiver: Value, after: Class) -> None:
        self.receiver, self.after = receiver, after


class Layer(Value):
    """A module of torch.nn: its class, options and parameters, and the children of a container."""

    __slots__ = (
        "children", "computed", "forward_hooks", "hooked", "kind", "options", "parametrized", "pre_hooks", "recomputed",
        "sizes", "state", "training",
    )  # fmt: skip

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self.kind, self.options = kind, options
        self.state: dict[str, Tensor] = {}
        self.children: dict[str, Value] = {}
        self.sizes: tuple[int | None, int | None] = (None, None)
        """The first two numbers it was built with: features or channels, in and out."""
        self.training: bool | None = True
        self.forward_hooks: list[Value] = []
        self.pre_hooks: list[Value] = []
        self.hooked = False
        self.parametrized = False
        """True if each forward computes the weight from the parameters, as weight norm does."""
        self.computed: dict[str, list[Value]] = {}
        """For each parametrized parameter: what computes it at each read (`register_parametrization`)."""
        self.recomputed: dict[str, Path] = {}
        """The parameters that each read, or each forward, computes again, with the path on which that holds."""


class Optimizer(Value):
    """An optimizer and the parameters that it steps."""

    __slots__ = ("has_momenta", "kind", "momenta", "parameters", "whole")

    def __init__(self, kind: str, parameters: list[Tensor], whole: bool, has_momenta: bool = False) -> None:
        self.kind, self.parameters, self.whole = kind, parameters, whole
        """`whole` is True if these are certainly all of its parameters."""
        self.has_momenta = has_momenta
        self.momenta: Tensor | None = None
        """The state that it keeps between steps, from the first step on."""


class Scaler(Value):
    """A GradScaler, which scales the loss for mixed precision."""

    __slots__ = ()


class Distribution(Value):
    """A distribution of torch: the tensors of its location, and its other parameters."""

    __slots__ = ("spread", "unknown", "where")

    def __init__(self, where: list[Tensor], spread: list[Tensor], unknown: bool) -> None:
        self.where, self.spread, self.unknown = where, spread, unknown


class GradMode(Value):
    """`torch.no_grad()` and the like, as context manager or decorator. Modes: "on", "off", "inference", "unknown"."""

    __slots__ = ("mode",)

    def __init__(self, mode: str) -> None:
        self.mode = mode


class Choice(Value):
    """One of several values, after branches were joined."""

    __slots__ = ("options", "paths")

    def __init__(self, options: tuple[Value, ...], paths: tuple[Path, ...] | None = None) -> None:
        self.options = options
        self.paths: tuple[Path, ...] = ((),) * len(options) if paths is None else paths
        """For each value, the arms of the branches that lead to it."""


def is_none(value: Value) -> bool:
    """True if it is certainly None."""
    return isinstance(value, Const) and value.value is None
