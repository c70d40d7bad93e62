"""Plain records of the standard library: named tuples, namespaces, and command-line arguments by their defaults."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.source import holders
from outplace.source.values import NONE, PLAIN, UNKNOWN, Args, Class, Const, Instance, Items, Keywords, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_PARSER = "ArgumentParser"
_STACK, _PENDING = "ExitStack", "callbacks"


def make(interpreter: Interpreter, name: str, args: Args, keywords: Keywords) -> Value:
    """Returns a class of named tuples, a namespace, or an argument parser."""
    short = name.rpartition(".")[2]
    if short == "namedtuple":
        fields = list(_words(args[1] if len(args) > 1 else keywords.get("field_names", UNKNOWN)))
        return _record_class(interpreter, _text(args[0] if args else UNKNOWN) or "record", fields)
    instance = Instance(_record_class(interpreter, short, None))
    instance.names.update(keywords)
    return instance


def _record_class(interpreter: Interpreter, name: str, fields: list[str] | None) -> Class:
    node = ast.ClassDef(name=name, bases=[], keywords=[], body=[], decorator_list=[])
    new_class = Class(node, interpreter.frame.module, [], name)
    new_class.fields, new_class.frozen = fields or None, fields is not None
    return new_class


def _text(value: Value) -> str | None:
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def _words(value: Value) -> list[str]:
    if isinstance(value, Items):
        return [word for item in value.items if (word := _text(item)) is not None]
    return (_text(value) or "").replace(",", " ").split()


def callbacks(manager: Value) -> list[Items]:
    """Returns what an ExitStack calls when it is left, in that order; each is a function and its arguments."""
    if not isinstance(manager, Instance) or manager.cls.name != _STACK:
        return []
    pending = manager.names.get(_PENDING)
    return [item for item in reversed(pending.items) if isinstance(item, Items)] if isinstance(pending, Items) else []


def record_method(record: Instance, name: str, args: Args, keywords: Keywords) -> Value | None:
    """Runs a method of a record; returns None if the record has no such method."""
    if record.cls.name == _STACK and name == "callback":
        pending = record.names.setdefault(_PENDING, Items([]))
        if isinstance(pending, Items) and args:
            pending.items.append(Items(list(args)))
        return args[0] if args else UNKNOWN
    if record.cls.name == _STACK and name == "enter_context" and args:
        return args[0]
    if name == "_replace" and record.cls.fields is not None:
        return replaced(record, keywords)
    return _parser_method(record, name, args, keywords)


def replaced(record: Instance, changes: dict[str, Value]) -> Instance:
    """Runs `record._replace(h=new)` or `dataclasses.replace(record, h=new)`: a new record with some other values."""
    instance = Instance(record.cls)
    instance.names.update({**record.names, **changes})
    holders.link(instance, record)
    return instance


def _parser_method(parser: Instance, name: str, args: Args, keywords: Keywords) -> Value | None:
    """Runs `add_argument` and `parse_args`: each option gets its default."""
    if parser.cls.name != _PARSER:
        return None
    if name == "add_argument":
        words = [word for argument in args if (word := _text(argument)) is not None]
        long = next((word for word in words if word.startswith("--")), words[0] if words else "")
        target = _text(keywords.get("dest", NONE)) or long.lstrip("-").replace("-", "_")
        action = _text(keywords.get("action", NONE))
        flags: dict[str | None, Value] = {"store_true": Const(False), "store_false": Const(True)}
        value = keywords.get("default")
        parser.names[target] = value if value is not None else flags.get(action, PLAIN)
        return NONE
    if name == "set_defaults":
        parser.names.update(keywords)
        return NONE
    if name == "parse_args":
        return parser
    return Items([parser, PLAIN], "tuple") if name == "parse_known_args" else parser
