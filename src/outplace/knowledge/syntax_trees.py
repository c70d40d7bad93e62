"""Ways through a syntax tree that are many times faster than those of `ast`."""

from __future__ import annotations

import ast


def walk(root: ast.AST) -> list[ast.AST]:
    """Returns the nodes of a tree in the order of `ast.walk`."""
    found = [root]
    for node in found:
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return found


def text_of(node: ast.expr) -> str:
    """Returns the text of an expression, as `ast.unparse` does."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
        return f"{text_of(node.value)}.{node.attr}"
    return ast.unparse(node)
