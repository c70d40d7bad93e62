"""Abstract values: what a name can stand for. Tensors, and as much of Python as leads to them."""

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
    """Anything a name can stand for."""

    __slots__ = ()


class Unknown(Value):
    """Could be anything; nothing is ever concluded from it."""

    __slots__ = ("activates", "of")

    def __init__(self, of: frozenset[Storage] = frozenset(), activates: bool = False) -> None:
        self.of = of
        """Memory that it may lie in. Only `rebinding` asks for it."""
        self.activates = activates
        """Was it built with an activation: `ConvModule(3, 8, act_cfg=...)`?"""


class Plain(Value):
    """Surely no tensor: numpy arrays, numbers, strings, files."""

    __slots__ = ("storage", "sure", "whole")

    def __init__(self, storage: Storage | None = None, whole: bool = True, sure: bool = True) -> None:
        self.whole = whole
        """Is it the array itself, not a part of it?"""
        self.storage = storage
        """The memory that a numpy array shares with a tensor, if any."""
        self.sure = sure
        """Is that certain? `x.cpu()` may be a copy."""


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
"""Stands for the rest of `f(*items)`, where the number of items is not known."""


class Tensor(Value):
    """A tensor. Three-valued facts are True, False or None (not known)."""

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
        """`of`: the tensor that it is a view of, or stands for."""
        self.storage = storage
        self.family: Family = Family() if of is None else of.family
        self.requires_grad = requires_grad
        self.node = node
        self.since = 0
        self.leaf = leaf
        self.known = known
        """Is it certainly a tensor? (A function's parameter may be a number.)"""
        self.dtype = dtype
        """Its kind (see `dtypes`)."""
        self.certain = True
        """Does it certainly lie in this storage? (`reshape` may or may not copy.)"""
        self.anchor: object | None = None
        """If not certain: stands for its memory. All tensors that certainly share it have the same anchor."""
        self.view: str | None = None
        """How it came to be a view: "view", "multi", "nograd", "custom", None for a tensor of its own."""
        self.view_sure = True
        """Is it certainly such a view, of this storage or of a copy?"""
        self.region: tuple[int | slice | str | None, ...] | None = ()
        """Which part of its family's first tensor it is (see `regions`); None if not known."""
        self.parts: tuple[tuple[object, Value], ...] = ()
        """The parts that it lies in: of which tensor, or of which call of `chunk`, and at which key (see `regions`)."""
        self.parameter = False
        self.untracked = False
        """Was it made by `.data`? Autograd does not see writes through it."""
        self.expanded = False
        self.repeated: frozenset[int] = frozenset()
        """Dimensions that `expand` has made of one element, or of none."""
        self.inference = False
        self.shape: tuple[int | None, ...] | None = None
        """Its sizes (see `shapes`); None if not even their number is known."""
        self.sequence = False
        """Is it a PackedSequence? Its `data` is an ordinary tensor."""
        self.packed: bool | None = None
        """Is it contiguous (see `layouts`)? Then `reshape` does not copy."""
        self.gradient: tuple[SilentRule, bool] | None = None
        """Of a gradient that a hook was given: the rule against writing it, and whether others certainly share it."""
        self.fills_list = False
        """Does it fill a whole list (`[x] * n`)?"""
        self.repeats: bool | None = False
        """As an index: does it name a place twice? None if it may."""
        self.has_grad: bool | None = False
        """Of a leaf: has a backward given it a gradient?"""
        self.grad: Tensor | None = None
        """Its gradient, once the program has read it."""
        self.is_none: bool | None = False
        """Of a gradient or an argument: is it None? None if not known."""
        self.held = False
        """Does an optimizer step it?"""
        self.replaced: Replaced | None = None
        """The tensor that has replaced it in its name or attribute."""
        self.read: int | None = None
        """Of a gradient: when it was read from its leaf."""
        self.shallow = False
        """Does it belong to two modules, because one was made by `copy.copy`?"""
        self.shared_default = False
        """Is it the default of an argument, which all calls get?"""
        self.assigned: Place | None = None
        """Where it was assigned to `grad` of another tensor."""
        self.aliased: Tensor | None = None
        """The tensor that it is an alias of, by `detach()`, `.data` or `nn.Parameter`."""


class Replaced(NamedTuple):
    """A tensor that took another one's place, where, and on which path of branches."""

    by: Tensor
    place: Place
    path: Path


Stale = tuple["Tensor", "Write", "Update | None"]
"""A tensor that a holder has, and that was changed through another name (see `holders`)."""


MOST_ITEMS = 1_000
"""So many items of a container are kept."""
MOST_INSIDE = 20_000
"""So many items of a container, and of the containers in it, are kept. One that is held twice counts twice."""


class Items(Value):
    """A list, tuple or set. `rest` stands for further items whose number is not known, or too large to keep them."""

    __slots__ = ("appended", "copies", "items", "kind", "latest", "rest", "stale")

    def __init__(self, items: list[Value], kind: str = "list", rest: Value | None = None) -> None:
        self.items, self.kind, self.rest = items, kind, rest
        if len(items) > MOST_ITEMS:  # a list that is added to itself in a loop doubles each time
            self.items, self.rest = items[:MOST_ITEMS], UNKNOWN
        self.latest: tuple[Value, Value] | None = None
        """The unknown index that was assigned to last, and what."""
        self.appended: dict[int, tuple[int, Path]] = {}
        """When and on which path each tensor, by its identity, was first appended."""
        self.copies: list[Items | Dictionary | Instance] | None = None
        """This container and its shallow copies: all hold the same items."""
        self.stale: tuple[Stale, ...] = ()


class Dictionary(Value):
    """A dict with constant keys; `rest` stands for the items with unknown keys."""

    __slots__ = ("copies", "items", "latest", "rest", "stale")

    def __init__(self, items: dict[Any, Value] | None = None, rest: Value | None = None) -> None:
        self.items: dict[Any, Value] = items or {}
        self.rest = rest
        self.latest: tuple[Value, Value] | None = None
        """The unknown key that was assigned to last, and what."""
        self.copies: list[Items | Dictionary | Instance] | None = None
        self.stale: tuple[Stale, ...] = ()


class StateDict(Dictionary):
    """`module.state_dict()`: the parameters themselves, not copies."""

    __slots__ = ("of", "since")

    def __init__(self, items: dict[Any, Value], since: int, of: int) -> None:
        super().__init__(items)
        self.since, self.of = since, of


class Torch(Value):
    """Something of torch, by its full name: a module, a function, a class, or an operator that the project defines."""

    __slots__ = ("name", "operator")

    def __init__(self, name: str, operator: Operator | None = None) -> None:
        self.name, self.operator = name, operator


class Outside(Value):
    """Something of another library, by its full name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Namespace(Value):
    """A module of the project, by its file; read when something of it is first used."""

    __slots__ = ("name", "path")

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name


class Imported(Value):
    """A name imported from a module of the project; looked up when it is first used."""

    __slots__ = ("module", "name")

    def __init__(self, module: Namespace, name: str) -> None:
        self.module, self.name = module, name


_NOTHING: dict[str, tuple[Stale, ...]] = {}


class Scope:
    """Names of a running function or module, with the scope around it."""

    __slots__ = ("names", "outer", "shared", "stale")

    def __init__(self, outer: Scope | None = None, names: dict[str, Value] | None = None) -> None:
        self.names: dict[str, Value] = {} if names is None else names
        self.outer = outer
        self.shared: dict[str, Scope] = {}
        """Names declared `global` or `nonlocal`, with the scope they belong to."""
        self.stale: dict[str, tuple[Stale, ...]] = _NOTHING

    def get(self, name: str) -> Value | None:
        """The value of a name, None where it is not bound."""
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
        """The results that `functools.cache` keeps, by constant arguments; None for a function that is not cached."""
        self.parameters: tuple[list[str], dict[str, Value]] | None = None
        """The positional parameters, and all parameters with unknown values. Computed at first use."""
        self.by_level: set[str] | None = None
        """Parameters that are lists with one tensor for each level. Computed at first use."""
        self.assigned: dict[str, ast.expr] | None = None
        """Of a constructor: what it assigns to each attribute. Computed at first use."""
        self.brief: Function | None = None
        """Of a decorator: the part of it that is worth running. Computed at first use."""


class Class(Value):
    """A class of the project."""

    __slots__ = ("_lineage", "bases", "fields", "frozen", "module", "name", "names", "node")

    def __init__(self, node: ast.ClassDef, module: Module, bases: list[Value], name: str) -> None:
        self.node, self.module, self.bases, self.name = node, module, bases, name
        self.names: dict[str, Value] = {}
        self.fields: list[str] | None = None
        """Fields of a dataclass, in order."""
        self.frozen = False
        """Can the attributes of its objects not be set: a named tuple, a frozen dataclass?"""
        self._lineage: list[Value] | None = None

    def lineage(self) -> list[Value]:
        """The class, then its bases, depth first (project classes and torch's)."""
        if self._lineage is None:
            found: dict[Value, None] = {self: None}
            for base in self.bases:
                found.update(dict.fromkeys(base.lineage() if isinstance(base, Class) else [base]))
            self._lineage = list(found)
        return self._lineage

    def find(self, name: str) -> Value | None:
        """An attribute of the class or its bases."""
        for base in self.lineage():
            if isinstance(base, Class) and name in base.names:
                return base.names[name]
        return None

    def torch_base(self) -> str | None:
        """The torch class it is built on, such as "torch.nn.Module"; a framework may stand between them."""
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
        """Has a full backward hook: its output passes through a custom Function."""
        self.copies: list[Items | Dictionary | Instance] | None = None
        self.stale: tuple[Stale, ...] = ()


class Context(Value):
    """A call of a generator function that is a context manager: its body runs around the `with` block."""

    __slots__ = ("args", "function", "keywords")

    def __init__(self, function: Function, args: list[Value], keywords: dict[str, Value]) -> None:
        self.function, self.args, self.keywords = function, args, keywords


class Done(Value):
    """A future, or whatever else holds a result that has been computed."""

    __slots__ = ("result",)

    def __init__(self, result: Value) -> None:
        self.result = result


class Bound(Value):
    """A method with its receiver, or any callable known by name with what it is called on."""

    __slots__ = ("function", "receiver")

    def __init__(self, function: Value | str, receiver: Value) -> None:
        self.function, self.receiver = function, receiver


class Partial(Value):
    """`functools.partial`: a function with some of its arguments."""

    __slots__ = ("args", "function", "keywords")

    def __init__(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> None:
        self.function, self.args, self.keywords = function, args, keywords


DEFAULT_FACTORY = "default_factory"
"""As a bound function: what makes the default of a dataclass's field."""


class Super(Value):
    """`super()`: the receiver, and the class after which the lookup continues."""

    __slots__ = ("after", "receiver")

    def __init__(self, receiver: Value, after: Class) -> None:
        self.receiver, self.after = receiver, after


class Layer(Value):
    """A module of torch.nn: its class, its options, its parameters, and for containers its children."""

    __slots__ = (
        "children", "computed", "forward_hooks", "hooked", "kind", "options", "parametrized", "pre_hooks", "recomputed",
        "sizes", "state", "training",
    )  # fmt: skip

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self.kind, self.options = kind, options
        self.state: dict[str, Tensor] = {}
        self.children: dict[str, Value] = {}
        self.sizes: tuple[int | None, int | None] = (None, None)
        """The first two numbers it was made with: features or channels, in and out."""
        self.training: bool | None = True
        self.forward_hooks: list[Value] = []
        self.pre_hooks: list[Value] = []
        self.hooked = False
        self.parametrized = False
        """Is its weight computed from its parameters in each forward, as weight norm does?"""
        self.computed: dict[str, list[Value]] = {}
        """What computes each of its parameters at each reading (`register_parametrization`)."""
        self.recomputed: dict[str, Path] = {}
        """The parameters of which each reading, or each forward, makes a new tensor; the path on which that holds."""


class Optimizer(Value):
    """An optimizer with the parameters it steps."""

    __slots__ = ("has_momenta", "kind", "momenta", "parameters", "whole")

    def __init__(self, kind: str, parameters: list[Tensor], whole: bool, has_momenta: bool = False) -> None:
        self.kind, self.parameters, self.whole = kind, parameters, whole
        """`whole`: are these surely all of its parameters?"""
        self.has_momenta = has_momenta
        self.momenta: Tensor | None = None
        """Its state from step to step, once it has made a step."""


class Scaler(Value):
    """A GradScaler."""

    __slots__ = ()


class Distribution(Value):
    """A distribution of torch: the tensors of its location, and its other parameters."""

    __slots__ = ("spread", "unknown", "where")

    def __init__(self, where: list[Tensor], spread: list[Tensor], unknown: bool) -> None:
        self.where, self.spread, self.unknown = where, spread, unknown


class GradMode(Value):
    """`torch.no_grad()` and its kin, as context manager or decorator: mode is "on", "off", "inference" or "unknown"."""

    __slots__ = ("mode",)

    def __init__(self, mode: str) -> None:
        self.mode = mode


class Choice(Value):
    """One of several values: what is left after branches joined."""

    __slots__ = ("options", "paths")

    def __init__(self, options: tuple[Value, ...], paths: tuple[Path, ...] | None = None) -> None:
        self.options = options
        self.paths: tuple[Path, ...] = ((),) * len(options) if paths is None else paths
        """For each of them, the arms of branches that lead to it."""


def is_none(value: Value) -> bool:
    """Is it surely None?"""
    return isinstance(value, Const) and value.value is None
