"""What an annotation says about an argument."""

from __future__ import annotations

import ast

from outplace.knowledge.syntax_trees import text_of

_NO_TENSOR = {
    "int", "float", "complex", "bool", "str", "bytes", "None", "ndarray", "list", "List", "dict", "Dict", "tuple",
    "Tuple", "set", "Set", "Sequence", "Iterable", "Iterator", "Generator", "Mapping", "MutableMapping",
    "OrderedDict", "defaultdict", "TensorDict", "TensorDictBase", "Callable", "type", "Type",
}  # fmt: skip
"""These are no tensors, whatever they hold."""


def says_tensor(annotation: ast.expr | None) -> bool | None:
    """Is a value with this annotation a tensor? None where it may be one."""
    if isinstance(annotation, ast.Constant):
        return _of_constant(annotation.value)
    if isinstance(annotation, (ast.Name, ast.Attribute)):
        return _of_name(annotation.id if isinstance(annotation, ast.Name) else annotation.attr)
    if isinstance(annotation, ast.BinOp):
        return _one_of([annotation.left, annotation.right])
    if not isinstance(annotation, ast.Subscript):
        return None
    if (outer := says_tensor(annotation.value)) is not None:
        return outer
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    if isinstance(annotation.value, (ast.Name, ast.Attribute)) and text_of(annotation.value).endswith("Union"):
        return _one_of(inner)
    return says_tensor(inner[0]) if inner else None  # Optional[Tensor], Annotated[Tensor, ...], Float[Tensor, "b n"]


def named_class(annotation: ast.expr | None) -> tuple[ast.expr, bool] | None:
    """The first class that `Type[A]`, `type[A | B]` or `list[Type[Union[A, B]]]` names; is it a list of them?"""
    if not isinstance(annotation, ast.Subscript):
        return None
    outer, inner = text_of(annotation.value).rpartition(".")[2], annotation.slice
    if outer in ("type", "Type"):
        return _first(inner), False
    found = named_class(inner) if outer in ("Optional", "list", "List", "Sequence") else None
    return None if found is None else (found[0], outer != "Optional")


def _first(node: ast.expr) -> ast.expr:
    """`A` of `Union[A, B]` and `A | B`."""
    if isinstance(node, ast.BinOp):
        return _first(node.left)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        return _first(node.slice.elts[0])
    return node


def _of_constant(value: object) -> bool | None:
    if not isinstance(value, str):
        return False if value is None else None
    try:
        return says_tensor(ast.parse(value, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _of_name(name: str) -> bool | None:
    if name in _NO_TENSOR:
        return False
    return True if name.endswith("Tensor") else None


def _one_of(options: list[ast.expr]) -> bool | None:
    """One of several. None among them says nothing: who writes to it has ruled it out."""
    said = {says_tensor(option) for option in options if not _is_none(option)}
    return said.pop() if len(said) == 1 else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
