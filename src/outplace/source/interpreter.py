"""Runs statements and calls on abstract values: names and attributes, branches joined, loops gone through twice."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from outplace.source import python_model, torch_model
from outplace.source.project import Module, Project
from outplace.source.tape import Hit, Place, Tape
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Const,
    Dictionary,
    Function,
    GradMode,
    Imported,
    Instance,
    Items,
    Layer,
    Namespace,
    Outside,
    Plain,
    Scope,
    Super,
    Tensor,
    Torch,
    Unknown,
    Value,
    join,
    options,
)

DEEPEST_CALL = 16
ROUNDS = 3
"""How often a loop of unknown length is gone through: what one round saves the next may overwrite, and state that a
round makes part of the graph is saved in the next. Loops inside loops: once less."""

Arguments = tuple[list[Value], dict[str, Value]]


class OutOfSteps(Exception):
    """The program is larger than what is worth following."""


class Stop:
    """How a block ended: it ran through, or left by return, break, continue or raise."""

    RAN, RETURNED, BROKE, CONTINUED, RAISED = range(5)


_LEAST_FINAL = (Stop.CONTINUED, Stop.BROKE, Stop.RETURNED, Stop.RAISED)


class Frame:
    """A running function: its scope, what it returned so far, and where it is."""

    __slots__ = ("function", "module", "name", "returns", "scope", "yields")

    def __init__(self, module: Module, scope: Scope, name: str, function: Function | None = None) -> None:
        self.module, self.scope, self.name, self.function = module, scope, name, function
        self.returns: list[Value] = []
        self.yields: list[Value] = []


class Interpreter:
    """One run over a program, or over one function with unknown arguments."""

    def __init__(self, project: Project, most_steps: int) -> None:
        self.project = project
        self._most_steps = most_steps
        self.tape = Tape()
        self.grad: str = "on"
        """Grad mode: "on", "off", "inference" or "unknown"."""
        self.frames: list[Frame] = []
        self.steps = 0
        self.on_call: Callable[[ast.AST], None] = lambda _node: None
        """Told of each function that is run."""
        self._branches = 0
        self._loops = 0
        self._changes: list[tuple[dict[str, Value], str, Value | None]] | None = None

    # -- places -------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The running function."""
        return self.frames[-1]

    def place(self, node: ast.AST) -> Place:
        """A place in the running function."""
        return Place(self.frame.module, node, self.frame.name)

    def hit(self, kind: str, node: ast.AST, certain: bool, detail: str = "", **facts: Any) -> None:
        """Reports something that is wrong where it stands."""
        self.tape.hits.append(Hit(kind, None, self.place(node), certain, detail=detail, **facts))

    # -- modules --------------------------------------------------------------------------------------------------

    def run_module(self, module: Module) -> None:
        """Interprets the top level of a file, once."""
        if module.started:
            return
        module.started = True
        module.scope.names.setdefault("__name__", Const("__main__"))
        self._in_frame(Frame(module, module.scope, "<module>"), lambda: self.block(module.tree.body))

    def _in_frame(self, frame: Frame, run: Callable[[], object]) -> None:
        self.frames.append(frame)
        try:
            run()
        finally:
            self.frames.pop()

    def import_module(self, name: str) -> Value:
        """What `import name` gives."""
        top = name.split(".")[0]
        if top == "torch":
            return Torch(name)
        path = self.project.find(name, self.frame.module)
        return Outside(name) if path is None else Namespace(path, name)

    def names_of(self, namespace: Namespace) -> dict[str, Value]:
        """The names that a module of the project defines."""
        module = self.project.load(namespace.path)
        if module is None:
            return {}
        if not module.started:
            module.scope.names["__name__"] = Const(module.name)
            self._beside(lambda: self.run_module(module))
        return module.scope.names

    def _beside(self, run: Callable[[], object]) -> None:
        """Runs something that is no part of the present branch, loop or mode."""
        kept = self.grad, self.tape.path, self._changes, self._loops, self.frames
        self.grad, self.tape.path, self._changes, self._loops, self.frames = "on", (), None, 0, self.frames[:1]
        try:
            run()
        finally:
            self.grad, self.tape.path, self._changes, self._loops, self.frames = kept

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise OutOfSteps

    def within(self, steps: int, run: Callable[[], object]) -> None:
        """Runs something with a budget of its own, and leaves no trace of having been cut short."""
        kept = self.steps, self._most_steps, list(self.frames), self.grad, self.tape.path, self._changes, self._loops
        self.steps, self._most_steps = 0, steps
        try:
            run()
        finally:
            self.steps, self._most_steps, self.frames, self.grad, self.tape.path, self._changes, self._loops = kept

    # -- statements -------------------------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> int:
        """Runs statements in order until one leaves the block."""
        for statement in statements:
            self._step()
            run = _STATEMENTS.get(type(statement))
            if run is not None:
                ended = run(self, statement)
                if ended:
                    return ended
        return Stop.RAN

    def _expr(self, node: ast.Expr) -> int:
        self.eval(node.value)
        return Stop.RAN

    def _assign(self, node: ast.Assign) -> int:
        value = self.eval(node.value)
        for target in node.targets:
            self.bind(target, value, node)
        return Stop.RAN

    def _ann_assign(self, node: ast.AnnAssign) -> int:
        if node.value is not None:
            self.bind(node.target, self.eval(node.value), node)
        return Stop.RAN

    def _aug_assign(self, node: ast.AugAssign) -> int:
        target = node.target
        old = self.eval(target)
        value = self.eval(node.value)
        new = join([self._augmented(node, option, value) for option in options(old)])
        if isinstance(target, ast.Subscript):
            holder = self.eval(target.value)
            if any(isinstance(option, Tensor) for option in options(holder)):
                torch_model.set_item(self, holder, target, new, node, again=True)
                return Stop.RAN
            if isinstance(holder, Plain):
                torch_model.set_item(self, holder, target, new, node)
                return Stop.RAN
        self.bind(target, new, node)
        return Stop.RAN

    def _augmented(self, node: ast.AugAssign, old: Value, value: Value) -> Value:
        if isinstance(old, Tensor):
            return torch_model.augmented(self, node, old, value)
        if isinstance(old, Items) and isinstance(node.op, ast.Add):
            python_model.extend(old, value)
            return old
        return self.binary(node.op, old, value, node)

    def _return(self, node: ast.Return) -> int:
        self.frame.returns.append(self.eval(node.value) if node.value is not None else NONE)
        return Stop.RETURNED

    def _raise(self, node: ast.Raise) -> int:
        return Stop.RAISED

    def _if(self, node: ast.If) -> int:
        known = self.truth(self.eval(node.test))
        if known is not None:
            return self.block(node.body if known else node.orelse)
        return self._arms([lambda: self.block(node.body), lambda: self.block(node.orelse)])

    def _arms(self, arms: list[Callable[[], int]]) -> int:
        """Runs each arm from the same beginning, then joins what they left behind."""
        self._branches += 1
        branch, outer_path, outer_changes = self._branches, self.tape.path, self._changes
        scope, before = self.frame.scope, dict(self.frame.scope.names)
        ends: list[tuple[int, int, dict[str, Value], dict[Any, tuple[dict[str, Value], str, Value]]]] = []
        for number, arm in enumerate(arms):
            scope.names.clear()
            scope.names.update(before)
            self.tape.path, self._changes = (*outer_path, (branch, number)), []
            ended = arm()
            changed = {
                (id(holder), key): (holder, key, holder[key]) for holder, key, _ in self._changes if key in holder
            }
            for holder, key, old in reversed(self._changes):
                if old is None:
                    holder.pop(key, None)
                else:
                    holder[key] = old
            ends.append((number, ended, dict(scope.names), changed))
        self.tape.path, self._changes = outer_path, outer_changes
        going_on = [end for end in ends if end[1] == Stop.RAN]
        joined = going_on or ends
        self._join_names(scope.names, [names for _, _, names, _ in joined])
        self._join_attributes([changed for _, _, _, changed in joined])
        if len(going_on) == 1 and len(ends) > 1:
            self.tape.path = (*outer_path, (branch, going_on[0][0]))  # what follows runs only after this arm
        return Stop.RAN if going_on else min((end[1] for end in ends), key=_LEAST_FINAL.index)

    def _join_names(self, names: dict[str, Value], ends: list[dict[str, Value]]) -> None:
        names.clear()
        for name in dict.fromkeys(name for end in ends for name in end):
            values = [end[name] for end in ends if name in end]
            names[name] = values[0] if all(value is values[0] for value in values) else join(values)

    def _join_attributes(self, ends: list[dict[Any, tuple[dict[str, Value], str, Value]]]) -> None:
        for key in dict.fromkeys(key for end in ends for key in end):
            holder, name, _ = next(end[key] for end in ends if key in end)
            values = [end[key][2] if key in end else holder.get(name) for end in ends]
            self.set_name(holder, name, join([value for value in values if value is not None]))

    def set_name(self, holder: dict[str, Value], name: str, value: Value) -> None:
        """Sets an attribute so that an undecided branch can take it back."""
        if self._changes is not None:
            self._changes.append((holder, name, holder.get(name)))
        holder[name] = value

    def _for(self, node: ast.For) -> int:
        iterable = self.eval(node.iter)
        rounds = python_model.iterate(self, iterable, node, least=self._rounds())
        self._loops += 1
        ended = self._run_rounds(node, rounds)
        self._loops -= 1
        return ended if ended or not node.orelse else self.block(node.orelse)

    def _rounds(self) -> int:
        return ROUNDS if self._loops == 0 else ROUNDS - 1

    def _run_rounds(self, node: ast.For, rounds: list[Value]) -> int:
        path = self.tape.path
        for item in rounds:
            self.bind(node.target, item, node)
            ended = self.block(node.body)
            self.tape.path = path  # an arm that went on with the next round decides nothing about that round
            if ended in (Stop.RETURNED, Stop.RAISED):
                return ended
            if ended == Stop.BROKE:
                break
        return Stop.RAN

    def _while(self, node: ast.While) -> int:
        path = self.tape.path
        for _ in range(self._rounds()):
            if self.truth(self.eval(node.test)) is False:
                break
            ended = self.block(node.body)
            self.tape.path = path
            if ended in (Stop.RETURNED, Stop.RAISED):
                return ended
            if ended == Stop.BROKE:
                break
        return Stop.RAN

    def _with(self, node: ast.With | ast.AsyncWith) -> int:
        mode = self.grad
        for item in node.items:
            manager = self.eval(item.context_expr)
            if isinstance(manager, GradMode):
                self.grad = manager.mode
            entered: Value = manager
            if isinstance(manager, Instance) and isinstance(enter := manager.cls.find("__enter__"), Function):
                entered = self.call_function(enter, [manager], {}, node)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, entered, node)
        ended = self.block(node.body)
        self.grad = mode
        return ended

    def _try(self, node: Any) -> int:
        def body() -> int:
            ended = self.block(node.body)
            return self.block(node.orelse) if not ended and node.orelse else ended

        handlers = [self._handler(handler) for handler in node.handlers]
        ended = self._arms([body, *handlers]) if handlers else body()
        finally_ended = self.block(node.finalbody) if node.finalbody else Stop.RAN
        return finally_ended or ended

    def _handler(self, handler: ast.ExceptHandler) -> Callable[[], int]:
        def run() -> int:
            if handler.name:
                self.frame.scope.set(handler.name, UNKNOWN)
            return self.block(handler.body)

        return run

    def _function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        function = self.make_function(node, node.name)
        value: Value = function
        for decorator in reversed(node.decorator_list):
            value = self._decorated(function, value, self.eval(decorator), decorator)
        self.frame.scope.set(node.name, value)
        return Stop.RAN

    def make_function(self, node: Any, name: str) -> Function:
        """A function value, with its defaults evaluated now."""
        outer = self.frame.name
        full = name if outer == "<module>" else f"{outer}.{name}"
        function = Function(node, self.frame.module, self.frame.scope, full)
        function.defaults = [self.eval(default) for default in node.args.defaults]
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if default is not None:
                function.keyword_defaults[argument.arg] = self.eval(default)
        return function

    def _decorated(self, function: Function, value: Value, decorator: Value, node: ast.expr) -> Value:
        name = ast.unparse(node).split("(")[0].rpartition(".")[2]
        if isinstance(decorator, GradMode):
            function.grad = decorator.mode
        elif isinstance(decorator, Torch) and decorator.name in torch_model.GRAD_MODES:
            function.grad = torch_model.GRAD_MODES[decorator.name]
        elif name in ("staticmethod", "classmethod", "property", "setter", "cached_property"):
            function.kind = name
            if name == "setter":
                getter = self.frame.scope.names.get(function.node.name)  # type: ignore[union-attr]
                if isinstance(getter, Function):
                    self.frame.scope.names[f"{getter.node.name}.setter"] = function  # type: ignore[union-attr]
                    return getter
        elif name in ("contextmanager", "asynccontextmanager"):
            return UNKNOWN
        elif isinstance(decorator, Function) and _touches_grad_mode(decorator):
            made = self.call(decorator, [value], {}, node)
            return made if isinstance(made, Function | Bound) else value
        return value

    def _class_def(self, node: ast.ClassDef) -> int:
        bases = [self.eval(base) for base in node.bases]
        name = node.name if self.frame.name == "<module>" else f"{self.frame.name}.{node.name}"
        made = Class(node, self.frame.module, bases, name)
        scope = Scope(self.frame.scope, made.names)
        frame = Frame(self.frame.module, scope, name)
        self._in_frame(frame, lambda: self.block(node.body))
        for value in made.names.values():
            if isinstance(value, Function) and value.owner is None:
                value.owner = made
                value.scope = self.frame.scope  # a method does not see the names of its class
        decorators = [ast.unparse(decorator).split("(")[0].rpartition(".")[2] for decorator in node.decorator_list]
        if "dataclass" in decorators:
            inherited = [field for base in bases if isinstance(base, Class) for field in base.fields or []]
            own = [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
            made.fields = [*inherited, *own]
        self.frame.scope.set(node.name, made)
        return Stop.RAN

    def _import(self, node: ast.Import) -> int:
        for alias in node.names:
            value = self.import_module(alias.name)
            if alias.asname is None and "." in alias.name:
                value = self.import_module(alias.name.split(".")[0])
            self.frame.scope.set(alias.asname or alias.name.split(".")[0], value)
        return Stop.RAN

    def _import_from(self, node: ast.ImportFrom) -> int:
        base = node.module or ""
        if node.level:
            package = self.frame.module.package.split(".")
            kept = package[: len(package) - (node.level - 1)]
            base = ".".join([*kept, *([base] if base else [])])
        holder = self.import_module(base) if base else UNKNOWN
        for alias in node.names:
            if alias.name == "*":
                if isinstance(holder, Namespace):
                    self.frame.scope.names.update(self.names_of(holder))
                continue
            value: Value
            if isinstance(holder, Namespace):
                value = Imported(holder, alias.name)
            elif isinstance(inner := self.import_module(f"{base}.{alias.name}") if base else UNKNOWN, Namespace):
                value = inner
            else:
                value = self.attribute(holder, alias.name, node)
            self.frame.scope.set(alias.asname or alias.name, value)
        return Stop.RAN

    def _global(self, node: ast.Global) -> int:
        for name in node.names:
            self.frame.scope.shared[name] = self.frame.module.scope
        return Stop.RAN

    def _nonlocal(self, node: ast.Nonlocal) -> int:
        for name in node.names:
            scope = self.frame.scope.outer
            while scope is not None and name not in scope.names:
                scope = scope.outer
            if scope is not None:
                self.frame.scope.shared[name] = scope
        return Stop.RAN

    def _delete(self, node: ast.Delete) -> int:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.frame.scope.names.pop(target.id, None)
        return Stop.RAN

    def _assert(self, node: ast.Assert) -> int:
        self.eval(node.test)
        return Stop.RAN

    def _match(self, node: Any) -> int:
        self.eval(node.subject)
        return self._arms([*(lambda case=case: self.block(case.body) for case in node.cases), lambda: Stop.RAN])

    # -- binding ----------------------------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """Assigns a value to a target."""
        if isinstance(target, ast.Name):
            self.frame.scope.set(target.id, value)
        elif isinstance(target, ast.Attribute):
            for holder in options(self.eval(target.value)):
                self.set_attribute(holder, target.attr, value, node)
        elif isinstance(target, ast.Subscript):
            torch_model.set_item(self, self.eval(target.value), target, value, node)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value, node)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value, node)

    def _unpack(self, targets: list[ast.expr], value: Value, node: ast.AST) -> None:
        parts = [python_model.unpacked(self, option, len(targets), node) for option in options(value)]
        starred = next((place for place, item in enumerate(targets) if isinstance(item, ast.Starred)), None)
        for place, target in enumerate(targets):
            if starred is not None and place >= starred:
                rest = join([item for part in parts for item in part[starred:]]) if parts else UNKNOWN
                self.bind(target, Items([rest]) if place == starred else rest, node)
            else:
                self.bind(target, join([part[place] for part in parts]), node)

    def set_attribute(self, holder: Value, name: str, value: Value, node: ast.AST) -> None:
        """`holder.name = value`."""
        if isinstance(holder, Instance):
            setter = holder.cls.find(f"{name}.setter")
            if isinstance(setter, Function):
                self.call_function(setter, [holder, value], {}, node)
            else:
                self.set_name(holder.names, name, value)
        elif isinstance(holder, Class):
            self.set_name(holder.names, name, value)
        elif isinstance(holder, Namespace):
            self.names_of(holder)[name] = value
        else:
            torch_model.set_attribute(self, holder, name, value, node)

    # -- expressions ------------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Value:
        """The value of an expression."""
        run = _EXPRESSIONS.get(type(node))
        return UNKNOWN if run is None else run(self, node)

    def _constant(self, node: ast.Constant) -> Value:
        return Const(node.value)

    def _name(self, node: ast.Name) -> Value:
        value = self.frame.scope.get(node.id)
        if value is None:
            return python_model.builtin(node.id)
        return self._resolved(value, set()) if isinstance(value, Imported) else value

    def _resolved(self, value: Value, seen: set[tuple[str, str]]) -> Value:
        """What an imported name stands for, through modules that import it themselves."""
        while isinstance(value, Imported):
            key = (value.module.path, value.name)
            if key in seen:
                return UNKNOWN
            seen.add(key)
            found = self.names_of(value.module).get(value.name)
            if found is None:
                path = self.project.find(f"{value.module.name}.{value.name}", self.frame.module)
                return UNKNOWN if path is None else Namespace(path, f"{value.module.name}.{value.name}")
            value = found
        return value

    def _attribute(self, node: ast.Attribute) -> Value:
        holder = self.eval(node.value)
        if isinstance(holder, Choice):
            return join([self.attribute(option, node.attr, node) for option in holder.options])
        return self.attribute(holder, node.attr, node)

    def attribute(self, holder: Value, name: str, node: ast.AST) -> Value:
        """`holder.name`."""
        if isinstance(holder, Instance):
            return self._instance_attribute(holder, name, node)
        if isinstance(holder, Torch):
            return torch_model.torch_attribute(f"{holder.name}.{name}")
        if isinstance(holder, Namespace):
            return self._resolved(Imported(holder, name), set())
        if isinstance(holder, Class):
            return self._class_attribute(holder, name)
        if isinstance(holder, Outside):
            return Outside(f"{holder.name}.{name}")
        if isinstance(holder, Super):
            return self._super_attribute(holder, name)
        if isinstance(holder, Unknown):
            return UNKNOWN
        found_value = torch_model.attribute(self, holder, name, node)
        return found_value if found_value is not None else Bound(name, holder)

    def _instance_attribute(self, holder: Instance, name: str, node: ast.AST) -> Value:
        if name in holder.names:
            return holder.names[name]
        found = holder.cls.find(name)
        if isinstance(found, Function):
            if found.kind in ("property", "cached_property"):
                return self.call_function(found, [holder], {}, node)
            return (
                found
                if found.kind == "staticmethod"
                else Bound(found, holder.cls if found.kind == "classmethod" else holder)
            )
        if found is not None:
            return found
        if name == "__dict__":
            return UNKNOWN
        base = holder.cls.torch_base()
        if base is not None:
            return torch_model.object_attribute(self, holder, base, name)
        return UNKNOWN if holder.cls.find("__getattr__") or _has_unknown_base(holder.cls) else Bound(name, holder)

    def _class_attribute(self, holder: Class, name: str) -> Value:
        found = holder.find(name)
        if isinstance(found, Function) and found.kind == "classmethod":
            return Bound(found, holder)
        return found if found is not None else Bound(name, holder)

    def _super_attribute(self, holder: Super, name: str) -> Value:
        lineage = holder.receiver.cls.lineage() if isinstance(holder.receiver, Instance) else []
        after = lineage[lineage.index(holder.after) + 1 :] if holder.after in lineage else []
        for base in after:
            if isinstance(base, Class) and name in base.names:
                found = base.names[name]
                return Bound(found, holder.receiver) if isinstance(found, Function) else found
            if isinstance(base, Torch):
                return torch_model.super_attribute(self, holder.receiver, base.name, name)
        return Bound(name, NONE)

    def _subscript(self, node: ast.Subscript) -> Value:
        holder = self.eval(node.value)
        key = self.eval(node.slice)
        return join([self._item(option, key, node) for option in options(holder)])

    def _item(self, holder: Value, key: Value, node: ast.Subscript) -> Value:
        if isinstance(holder, Tensor):
            return torch_model.get_item(self, holder, key, node)
        if isinstance(holder, Instance):
            getter = holder.cls.find("__getitem__")
            if isinstance(getter, Function):
                return self.call_function(getter, [holder, key], {}, node)
            children = torch_model.children_of(holder)
            return join(list(children.values())) if children else UNKNOWN
        return python_model.item(holder, key)

    def _slice(self, node: ast.Slice) -> Value:
        parts = [self.eval(part) if part is not None else NONE for part in (node.lower, node.upper, node.step)]
        if all(isinstance(part, Const) for part in parts):
            return Const(slice(*(part.value for part in parts)))  # type: ignore[attr-defined]
        return Bound("slice", PLAIN)

    def _call(self, node: ast.Call) -> Value:
        self._step()
        function = self.eval(node.func)
        args: list[Value] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                args.extend(python_model.spread(self.eval(argument.value)))
            else:
                args.append(self.eval(argument))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, Dictionary):
                keywords.update({key: item for key, item in value.items.items() if isinstance(key, str)})
        if isinstance(function, Choice):
            return join([self.call(option, args, keywords, node) for option in function.options])
        return self.call(function, args, keywords, node)

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        """Calls anything."""
        if isinstance(function, Function):
            return self.call_function(function, args, keywords, node)
        if isinstance(function, Bound):
            return self._call_bound(function, args, keywords, node)
        if isinstance(function, Class):
            return self._construct(function, args, keywords, node)
        if isinstance(function, Instance):
            return self._call_instance(function, args, keywords, node)
        if isinstance(function, Torch):
            return torch_model.call(self, function.name, args, keywords, node)
        if isinstance(function, Layer):
            return torch_model.run_layer(self, function, args, keywords, node)
        if isinstance(function, Outside):
            return python_model.call_outside(self, function.name, args, keywords, node)
        if isinstance(function, GradMode) and args:
            if isinstance(args[0], Function):
                args[0].grad = function.mode
            return args[0]
        return UNKNOWN

    def _call_bound(self, bound: Bound, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        if isinstance(bound.function, Function):
            return self.call_function(bound.function, [bound.receiver, *args], keywords, node)
        if isinstance(bound.function, Value):
            return self.call(bound.function, [bound.receiver, *args], keywords, node)
        found = torch_model.method(self, bound.receiver, bound.function, args, keywords, node)
        if found is None:
            found = python_model.method(self, bound.receiver, bound.function, args, keywords, node)
        return UNKNOWN if found is None else found

    def _construct(self, cls: Class, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        base = cls.torch_base()
        if base is not None and (special := torch_model.construct(self, cls, base, args, keywords, node)) is not None:
            return special
        made = Instance(cls)
        if base is not None:
            made.names["training"] = Const(True)
            made.names.update(torch_model.own_state(self, base, node))
        init = cls.find("__init__")
        if isinstance(init, Function):
            self.call_function(init, [made, *args], keywords, node)
        elif cls.fields is not None:
            self._fill_fields(made, cls.fields, args, keywords)
        elif _has_unknown_base(cls) and base is None:
            made.names.update({key: value for key, value in keywords.items()})
        elif base is not None:
            torch_model.init_container(self, made, base, args, node)
        return made

    def _fill_fields(self, made: Instance, fields: list[str], args: list[Value], keywords: dict[str, Value]) -> None:
        for field, value in zip(fields, args, strict=False):
            made.names[field] = value
        for field in fields[len(args) :]:
            default = made.cls.find(field)
            made.names[field] = keywords.get(field, default if default is not None else UNKNOWN)

    def _call_instance(self, instance: Instance, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        caller = instance.cls.find("__call__")
        if isinstance(caller, Function):
            return self.call_function(caller, [instance, *args], keywords, node)
        if instance.cls.torch_base() is not None:
            return torch_model.run_module(self, instance, args, keywords, node)
        return UNKNOWN

    def call_function(self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
        """Runs a function of the project on these arguments."""
        active = sum(frame.function is not None and frame.function.node is function.node for frame in self.frames)
        if active > 1 or len(self.frames) > DEEPEST_CALL:
            return UNKNOWN
        self.on_call(function.node)
        frame = Frame(function.module, Scope(function.scope), function.name, function)
        self._bind_arguments(function, frame.scope, args, keywords)
        mode, path, changes = self.grad, self.tape.path, self._changes
        if function.grad is not None:
            self.grad = function.grad
        self.frames.append(frame)
        try:
            if isinstance(function.node, ast.Lambda):
                return self.eval(function.node.body)
            ended = self.block(function.node.body)
        finally:
            self.frames.pop()
            self.grad = mode
        self.tape.path, self._changes = path, changes
        if frame.yields:
            return Items(frame.yields, "list", rest=join(frame.yields))
        if ended == Stop.RAN and frame.returns:
            frame.returns.append(NONE)
        return join(frame.returns) if frame.returns else NONE

    def _bind_arguments(self, function: Function, scope: Scope, args: list[Value], keywords: dict[str, Value]) -> None:
        spec = function.node.args
        names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        defaults = function.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            scope.names[name] = default
        scope.names.update(function.keyword_defaults)
        scope.names.update(zip(names, args, strict=False))
        known = {*names, *(argument.arg for argument in spec.kwonlyargs)}
        scope.names.update({key: value for key, value in keywords.items() if key in known})
        if spec.vararg is not None:
            scope.names[spec.vararg.arg] = Items(list(args[len(names) :]), "tuple")
        if spec.kwarg is not None:
            scope.names[spec.kwarg.arg] = Dictionary(
                {key: value for key, value in keywords.items() if key not in known}
            )
        for name in known:
            scope.names.setdefault(name, UNKNOWN)

    def _lambda(self, node: ast.Lambda) -> Value:
        return self.make_function(node, "<lambda>")

    def _if_exp(self, node: ast.IfExp) -> Value:
        known = self.truth(self.eval(node.test))
        if known is not None:
            return self.eval(node.body if known else node.orelse)
        return join([self.eval(node.body), self.eval(node.orelse)])

    def _bool_op(self, node: ast.BoolOp) -> Value:
        values = []
        for part in node.values:
            value = self.eval(part)
            known = self.truth(value)
            decides = known is (not isinstance(node.op, ast.And))
            if known is None or decides:
                values.append(value)
            if decides:
                break
        else:
            if known is not None:
                values.append(value)
        return join(values)

    def _compare(self, node: ast.Compare) -> Value:
        left, rights = self.eval(node.left), [self.eval(item) for item in node.comparators]
        if len(rights) == 1:
            return python_model.compare(self, node.ops[0], left, rights[0], node)
        return PLAIN

    def _bin_op(self, node: ast.BinOp) -> Value:
        left, right = self.eval(node.left), self.eval(node.right)
        if isinstance(left, Choice) or isinstance(right, Choice):
            made = [self.binary(node.op, one, other, node) for one in options(left) for other in options(right)]
            return join(made)
        return self.binary(node.op, left, right, node)

    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        """`left op right`."""
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return torch_model.binary(self, op, left, right, node)
        return python_model.binary(op, left, right)

    def _unary_op(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            known = self.truth(value)
            return PLAIN if known is None else Const(not known)
        if isinstance(value, Tensor):
            return torch_model.run_op(
                self, "neg" if isinstance(node.op, ast.USub) else "bitwise_not", [value], {}, node
            )
        return python_model.unary(node.op, value)

    def truth(self, value: Value) -> bool | None:
        """Is it true? None where that cannot be known."""
        return python_model.truth(value)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        items: list[Value] = []
        rest: Value | None = None
        for element in node.elts:
            if isinstance(element, ast.Starred):
                value = self.eval(element.value)
                items.extend(python_model.spread(value))
                rest = value.rest if isinstance(value, Items) else rest
            else:
                items.append(self.eval(element))
        return Items(items, "tuple" if isinstance(node, ast.Tuple) else "list", rest)

    def _dict(self, node: ast.Dict) -> Value:
        made = Dictionary()
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.eval(value_node)
            if key_node is None:
                if isinstance(value, Dictionary):
                    made.items.update(value.items)
                continue
            key = self.eval(key_node)
            if isinstance(key, Const) and python_model.hashable(key.value):
                made.items[key.value] = value
            else:
                made.rest = value if made.rest is None else join([made.rest, value])
        return made

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        inner = Frame(self.frame.module, Scope(self.frame.scope), self.frame.name, None)
        made: list[Value] = []
        keys: list[Value] = []

        def element() -> None:
            if isinstance(node, ast.DictComp):
                keys.append(self.eval(node.key))
                made.append(self.eval(node.value))
            else:
                made.append(self.eval(node.elt))

        exact = [True]

        def generate(depth: int) -> None:
            if depth == len(node.generators):
                element()
                return
            generator = node.generators[depth]
            iterable = self.eval(generator.iter)
            exact[0] &= python_model.is_exact(iterable)
            for item in python_model.iterate(self, iterable, node, most=8):
                self.bind(generator.target, item, node)
                known = [self.truth(self.eval(test)) for test in generator.ifs]
                exact[0] &= None not in known
                if False not in known:
                    generate(depth + 1)

        self._in_frame(inner, lambda: generate(0))
        if isinstance(node, ast.DictComp):
            pairs = [(key.value, value) for key, value in zip(keys, made, strict=True) if isinstance(key, Const)]
            whole = len(pairs) == len(made) and exact[0]
            return Dictionary(dict(pairs), None if whole else join(made))
        return Items(made, "list", None if exact[0] else join(made))

    def _joined_str(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.eval(part.value)
        return PLAIN

    def _named_expr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.bind(node.target, value, node)
        return value

    def _starred(self, node: ast.Starred) -> Value:
        return self.eval(node.value)

    def _yield(self, node: ast.Yield) -> Value:
        self.frame.yields.append(self.eval(node.value) if node.value is not None else NONE)
        return UNKNOWN

    def _yield_from(self, node: ast.YieldFrom) -> Value:
        self.frame.yields.extend(python_model.spread(self.eval(node.value)))
        return UNKNOWN

    def _await(self, node: ast.Await) -> Value:
        return self.eval(node.value)


def _touches_grad_mode(decorator: Function) -> bool:
    """Other decorators (registries, caches, timers) leave what matters here as it is."""
    node = decorator.node
    body = "\n".join(decorator.module.lines[node.lineno - 1 : node.end_lineno])
    return "grad" in body or "inference_mode" in body


def _has_unknown_base(cls: Class) -> bool:
    return any(not isinstance(base, Class | Torch) and not _is_object(base) for base in cls.lineage())


def _is_object(base: Value) -> bool:
    return isinstance(base, Outside) and base.name in ("builtins.object", "abc.ABC", "typing.Generic")


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: Interpreter._expr, ast.Assign: Interpreter._assign, ast.AnnAssign: Interpreter._ann_assign,
    ast.AugAssign: Interpreter._aug_assign, ast.Return: Interpreter._return, ast.Raise: Interpreter._raise,
    ast.If: Interpreter._if, ast.For: Interpreter._for, ast.AsyncFor: Interpreter._for, ast.While: Interpreter._while,
    ast.With: Interpreter._with, ast.AsyncWith: Interpreter._with, ast.Try: Interpreter._try,
    ast.FunctionDef: Interpreter._function_def, ast.AsyncFunctionDef: Interpreter._function_def,
    ast.ClassDef: Interpreter._class_def, ast.Import: Interpreter._import, ast.ImportFrom: Interpreter._import_from,
    ast.Global: Interpreter._global, ast.Nonlocal: Interpreter._nonlocal, ast.Delete: Interpreter._delete,
    ast.Assert: Interpreter._assert, ast.Match: Interpreter._match,
    ast.Break: lambda _self, _node: Stop.BROKE, ast.Continue: lambda _self, _node: Stop.CONTINUED,
}  # fmt: skip
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Interpreter._try

_EXPRESSIONS: dict[type[ast.expr], Any] = {
    ast.Constant: Interpreter._constant, ast.Name: Interpreter._name, ast.Attribute: Interpreter._attribute,
    ast.Subscript: Interpreter._subscript, ast.Slice: Interpreter._slice, ast.Call: Interpreter._call,
    ast.Lambda: Interpreter._lambda, ast.IfExp: Interpreter._if_exp, ast.BoolOp: Interpreter._bool_op,
    ast.Compare: Interpreter._compare, ast.BinOp: Interpreter._bin_op, ast.UnaryOp: Interpreter._unary_op,
    ast.List: Interpreter._sequence, ast.Tuple: Interpreter._sequence, ast.Set: Interpreter._sequence,
    ast.Dict: Interpreter._dict, ast.ListComp: Interpreter._comprehension, ast.SetComp: Interpreter._comprehension,
    ast.GeneratorExp: Interpreter._comprehension, ast.DictComp: Interpreter._comprehension,
    ast.JoinedStr: Interpreter._joined_str, ast.NamedExpr: Interpreter._named_expr, ast.Starred: Interpreter._starred,
    ast.Yield: Interpreter._yield, ast.YieldFrom: Interpreter._yield_from, ast.Await: Interpreter._await,
}  # fmt: skip
