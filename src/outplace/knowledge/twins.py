"""The out-of-place twin of each in-place method, and where the two differ."""

from __future__ import annotations

from typing import NamedTuple

_FRESH = "torch.empty_like({t}).{method}({args})"

# In-place methods whose replacement is an expression, not the method without its underscore.
_EXPRESSIONS = {
    "zero_": "torch.zeros_like({t})",
    "fill_": "torch.full_like({t}, {args})",
    "copy_": "{args}.to({t}.dtype).expand_as({t}).clone()",
    "fill_diagonal_": "torch.diagonal_scatter({t}, torch.full_like({t}.diagonal(), {args}))",
    "normal_": _FRESH,
    "uniform_": _FRESH,
    "random_": _FRESH,
    "exponential_": _FRESH,
    "cauchy_": _FRESH,
    "geometric_": _FRESH,
    "log_normal_": _FRESH,
    "bernoulli_": _FRESH,
}

_COMPARISONS = frozenset(
    {"eq_", "ge_", "greater_", "greater_equal_", "gt_", "le_", "less_", "less_equal_", "lt_", "ne_", "not_equal_"}
    | {"logical_and_", "logical_not_", "logical_or_", "logical_xor_"}
)
_VIEWS = frozenset(("as_strided_", "detach_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"))

# In-place methods that change more than values, or that no expression replaces.
_NONE = {
    "apply_": "it runs a Python function on each element; autograd does not see it",
    "map_": "it runs a Python function on each element; autograd does not see it",
    "map2_": "it runs a Python function on each element; autograd does not see it",
    "set_": "it replaces the tensor's storage",
    "share_memory_": "it moves the tensor's storage",
    "resize_": "it changes the tensor's size",
    "resize_as_": "it changes the tensor's size",
    "resize_as_sparse_": "it changes the tensor's size",
    "sparse_resize_": "it changes the tensor's size",
    "sparse_resize_and_clear_": "it changes the tensor's size",
    "requires_grad_": "it changes whether gradients are recorded, not values",
    "rename_": "it changes the names of dimensions, not values",
}

_NOTES = {
    "fill_": "for a tensor v write v.expand_as(t).clone(): full_like would lose the gradient to v",
    "bernoulli_": "t.bernoulli() is something else: there t holds the probabilities",
    "float_power_": "float_power returns float64",
}

_AUGMENTED = {
    "+=": "+",
    "-=": "-",
    "*=": "*",
    "/=": "/",
    "//=": "//",
    "%=": "%",
    "**=": "**",
    "&=": "&",
    "|=": "|",
    "^=": "^",
    "<<=": "<<",
    ">>=": ">>",
}


class Twin(NamedTuple):
    """The out-of-place form of an in-place operation.

    `name` is the twin method where there is one; `template` the expression to assign, with `{t}` for the target and
    `{args}` for the arguments; None where nothing replaces it. `equivalent` is False where the twin of the same name
    differs (a view, another dtype, another meaning); `note` says how.
    """

    name: str | None
    template: str | None
    equivalent: bool = True
    note: str = ""

    def expression(self, target: str, args: str = "") -> str | None:
        """The expression to assign to `target`, None where there is none."""
        return None if self.template is None else self.template.format(t=target, args=args)


def twin_of(method: str) -> Twin:
    """The twin of an in-place method of tensors, by the method's name (`add_`)."""
    bare = method.removesuffix("_")
    note = _NOTES.get(method, "")
    if method in _NONE:
        return Twin(None, None, False, _NONE[method])
    if method in _EXPRESSIONS:
        template = _EXPRESSIONS[method].replace("{method}", method)
        same_name = "bernoulli" if method == "bernoulli_" else None
        return Twin(same_name, template, same_name is None, note)
    if method in _COMPARISONS:
        template = "{t}." + bare + "({args}).to({t}.dtype)"
        return Twin(bare, template, False, f"{bare} alone returns bool, the in-place form keeps the dtype")
    if method in _VIEWS:
        note = f"{bare} returns a view: it shares memory and version with the tensor"
        return Twin(bare, "{t}." + bare + "({args})", False, note)
    return Twin(bare, "{t}." + bare + "({args})", True, note)


def augmented_twin(operator: str) -> Twin:
    """The twin of an augmented assignment: `+=` gives `{t} + {args}`."""
    plain = _AUGMENTED[operator]
    return Twin(plain, "{t} " + plain + " {args}")


SETITEM = Twin(
    None,
    None,
    False,
    "torch.where(mask, v, t) for a mask, t.index_put((index,), v) for an index tensor, "
    "torch.slice_scatter / torch.select_scatter for a slice or a number",
)
