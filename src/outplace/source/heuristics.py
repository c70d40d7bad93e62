"""Guesses from names and comments: the only places where a word of the user's decides something.

Each function says what it believes and what happens if it is wrong. docs/check.md lists them for users.
"""

from __future__ import annotations

import ast
import functools
import re

from outplace.knowledge import syntax_trees

_INFERENCE_ONLY = re.compile(
    r"\bonly (?:(?:be )?used )?(?:for|in|at|during) (?:inference|evaluation|generation)"
    r"|\b(?:inference|evaluation)[- ]only\b",
    re.IGNORECASE,
)
_PARAMETERS = ("weight", "bias")
_UPDATES = (
    "init", "reset", "fill", "load", "update", "project", "clip", "set", "constrain", "normalize_weight", "step",
)  # fmt: skip
_TRAINS = re.compile(r"^\S*(?:train|fit|main)\w*\(", re.MULTILINE)
_NO_GRADIENT = re.compile(
    r"(?:^|_)(?:mask|masks|ids?|idx|idxs|index|indices|labels?|targets?|gt|lengths?|lens?|sizes?|shapes?|steps?|timesteps?"
    r"|dims?|num|n|k|seed|device|dtype|batch|config|cfg|args|kwargs|name|key|keys|cu_seqlens|state_dict|metadata|prefix)$"
)
_RAW_DATA = re.compile(
    r"(?:^|_)(?:images?|imgs?|pixel_values|frames?|videos?|waveforms?|audio|spectrograms?|logits?|box(?:es)?|anchors?)\d*$"
)
_CHANNELS = re.compile(r"^in_(?:ch|chans|channels|planes|dim)$|^(?:num_)?channels$")
_SAVES_NOTHING = re.compile(r"drop|identity|pool|pad|flatten|reshape|rearrange|permute|upsample|shuffle|skip")
_ACTIVATION = re.compile(r"\.(?:\w+_)?(?:act\d*|activation|relu\d*|nonlinearity|non_linearity)$")
_ACTIVATION_OPTION = re.compile(r"^(?:act|activation|nonlinearity|apply_act)(?:_|$)")
_WRITE_OPTION = re.compile(r"^(?:in_?place|out|dest|destination|buffer)$")
_LAYER = re.compile(
    r"(?:^|_)(?:layer|block|blk|module|mod|net|conv|linear|norm|attn|ff|fn|mlp|stage|head|proj|fc|model|encoder"
    r"|decoder)\d*$"
)
_AROUND_TRAINING = re.compile(
    r"(?:^|_)(?:generat|decode_|predict|inference|post_?process|init|reset|load|convert|fuse|merge|deploy|reparam|quant"
    r"|(?:re)?sample|evaluate|validat|tests?(?:_|$)|visuali|plot|export|prune|match|nms|augment|transform_(?:points|boxes))"
    r"|^(?:to|from)_"
)
_LOSS = re.compile(r"loss|criterion|objective|penalty|regulari[sz]", re.IGNORECASE)
_DATA_CLASS = re.compile(
    r"Optimizer|Dataset|DataLoader|Transform(?!er)|Augment|Metric|Sampler|Scheduler|Callback|Processor|Tracker|Matcher|Crop"
)
_DATA_FILE = re.compile(
    r"(?:^|[._])(?:optim|transforms|augment|metrics?(?:[._]|$)|dataset|datapoint|tv_tensor|draw|visual|plot|data(?:[._]|$)"
    r"|tests?(?:[._]|$)|init|explain)"
)
_NEVER_TRAINED = re.compile(
    r"generat|predict|inference|post_?process|init|load|quant|evaluate|visuali|plot|export|nms|draw|checkpoint|state_dict"
)
_STORING = {
    "__setattr__", "__setitem__", "add", "add_param_group", "append", "appendleft", "enqueue", "extend", "extendleft",
    "insert", "push", "put", "put_nowait", "register_buffer", "register_parameter", "save", "send", "set", "setattr",
    "setdefault", "store", "update",
}  # fmt: skip
_START = re.compile(r"(^|_)(init|initial|start|starting|base|default|template|original|orig|[hcxz]_?0)(_|$)")
_OPTIMIZER_HANDED_ON = re.compile(r"[(,]\s*[\w.]*opt(?:im(?:i[sz]er)?)?_?\w?\d?\s*[,)]")
_TRANSPARENT_DECORATORS = {
    "staticmethod", "classmethod", "abstractmethod", "override", "property", "overload", "final", "no_grad",
    "enable_grad", "inference_mode", "set_grad_enabled", "autocast", "custom_fwd", "custom_bwd", "once_differentiable",
    "compile", "script", "script_method", "ignore", "unused", "export", "jaxtyped", "typechecked", "wraps",
    "contextmanager", "setter",
}  # fmt: skip


def is_mask(factor: ast.expr) -> bool:
    """Belief: an expression with "mask" in its text holds zeros and ones, so a second product with it changes nothing.

    If wrong: `self.weight.data *= self.mask` in every forward is a silent bug that `check` misses.
    """
    return "mask" in syntax_trees.text_of(factor).lower()


def says_inference_only(text: str) -> bool:
    """Belief: nobody trains through a function whose docstring or first comment says "only for inference".

    If wrong: a bug in that function is a warning, not an error.
    """
    return _INFERENCE_ONLY.search(text) is not None


def trains_by_name(source: str) -> bool:
    """Belief: a file that calls `train(...)`, `fit(...)` or `main(...)` at its top level may train.

    If wrong: a file without findings is analysed for nothing. A file that trains by a call of another name is analysed
    only if it writes something itself.
    """
    return _TRAINS.search(source) is not None


def is_start_name(attribute: str) -> bool:
    """Belief: an attribute called `initial_state`, `h0`, `base_sigmas`, `default_box` holds what each call starts from.

    If wrong: `run` reports a call that goes on from there, through another name, as a bug.
    """
    return _START.search(attribute.lower()) is not None


def makes_optimizer(call: ast.Call) -> bool:
    """Belief: a call with "optim" in its name makes an optimizer of what it is given: `get_optimizer(net)`.

    If wrong: `fix` takes the arguments for trained parameters, and offers no rewrite that makes them again.
    """
    return "optim" in syntax_trees.text_of(call.func).lower()


def is_class_name(function: str) -> bool:
    """Belief: an unknown function whose name begins with a capital letter is a class, and a call makes a new module.

    If wrong: `fix` does not compute the value again after a step.
    """
    return function.rpartition(".")[2][:1].isupper()


def hands_on_optimizers(body: str) -> bool:
    """Belief: `update(self.q_optim, self.q, loss)` steps the optimizer, and runs the backward of the loss before.

    If wrong: a function that does not train is analysed for nothing.
    """
    return _OPTIMIZER_HANDED_ON.search(body) is not None


def clips_gradients(call: ast.Call) -> bool:
    """Belief: a call with "clip_grad" in its name clips gradients, and does nothing else.

    If wrong: `fix` moves the call together with the optimizer step after it.
    """
    return "clip_grad" in syntax_trees.text_of(call.func).lower()


def steps_by_name(call: ast.Call) -> bool:
    """Belief: a function or method whose name ends in "step" steps an optimizer.

    If wrong: `fix` does not move a backward before the call.
    """
    return syntax_trees.text_of(call.func).endswith("step")


def is_gradient_name(name: str) -> bool:
    """Belief: a variable with "grad" in its name holds gradients.

    If wrong: `fix` takes a write of it for an update of parameters, and puts that under `no_grad`.
    """
    return "grad" in name.lower()


def is_parameter_name(attribute: str) -> bool:
    """Belief: an attribute called `weight` or `bias` is a parameter.

    If wrong: `fix` does not rebind a plain tensor of that name, and looks for another rewrite.
    """
    return attribute in _PARAMETERS


def is_update_name(function: str) -> bool:
    """Belief: a function called `reset_...`, `update_...`, `clip_...` updates a leaf permanently; it computes nothing.

    If wrong: `fix` puts a step of the computation under `no_grad`; the proof by running finds that.
    """
    return function.lstrip("_").startswith(_UPDATES)


@functools.cache
def takes_no_gradient(parameter: str) -> bool:
    """Belief: nobody differentiates by a parameter called `mask`, `labels`, `index`, `lengths` and the like.

    If wrong: a bug in a function without a caller is missed.
    """
    return _NO_GRADIENT.search(parameter.lower()) is not None


@functools.cache
def is_raw_data(parameter: str) -> bool:
    """Belief: no backward keeps an argument called `image`, `pixel_values`, `boxes` or `logits`.

    If wrong: a bug in a function without a caller is missed.
    """
    return _RAW_DATA.search(parameter.lower()) is not None


def takes_images(init: ast.AST) -> bool:
    """Belief: a module with `in_chans=3`, or with a convolution of 3 channels, is given images as they were loaded.

    If wrong: a bug in a function without a caller is missed.
    """
    spec = init.args  # type: ignore[attr-defined]
    by_name = [*zip(reversed([*spec.posonlyargs, *spec.args]), reversed(spec.defaults), strict=False)]
    by_name += [
        (argument, default) for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default
    ]
    if any(_CHANNELS.search(argument.arg) and _is_three(default) for argument, default in by_name):
        return True
    calls = (node for node in syntax_trees.walk(init) if isinstance(node, ast.Call) and node.args)
    return any("conv" in syntax_trees.text_of(call.func).lower() and _is_three(call.args[0]) for call in calls)


def _is_three(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 3


@functools.cache
def asks_for_writes(parameter: str) -> bool:
    """Belief: a parameter called `inplace`, `out` or `buffer` asks for writes, and who trains does not give it.

    If wrong: a bug in a function without a caller is missed.
    """
    return _WRITE_OPTION.search(parameter) is not None


def is_batch(axis: str) -> bool:
    """Belief: the axis `b` or `batch` of an einops pattern may have one row: then `(b h)` makes a view, no copy.

    If wrong: `check` warns of a write to one of several views that is a copy.
    """
    return axis.lower() in ("b", "bs", "batch")


@functools.cache
def is_layer_name(name: str) -> bool:
    """Belief: `layer(x)`, `block(x)`, `self_attn(x)` run a module, if nothing is known of the name.

    If wrong: `check` warns of a write after a call that saves nothing, and says what it assumes.
    """
    return _LAYER.search(name) is not None


@functools.cache
def is_activation_name(layer: str) -> bool:
    """Belief: an unknown layer called `act`, `relu` or `activation` saves its result, as ReLU does.

    If wrong: `check` warns of a write to the result, and says what it assumes.
    """
    return _ACTIVATION.search(layer.lower()) is not None


@functools.cache
def builds_activation(option: str) -> bool:
    """Belief: an unknown layer that is built with `act=...`, `activation=...`, `act_cfg=...` ends in an activation.

    If wrong: `check` warns of a write to the result, and says what it assumes.
    """
    return _ACTIVATION_OPTION.search(option) is not None


@functools.cache
def saves_nothing_by_name(layer: str) -> bool:
    """Belief: an unknown layer with "drop", "pool", "pad" or the like in its name does not save its input.

    If wrong: a bug in a function without a caller is missed.
    """
    return _SAVES_NOTHING.search(layer.lower()) is not None


@functools.cache
def is_loss_name(name: str) -> bool:
    """Belief: a function or class with "loss", "criterion", "penalty" or the like in its name is trained through.

    If wrong: `check` warns of what breaks if its arguments require grad.
    """
    return _LOSS.search(name) is not None


@functools.cache
def is_outside_training(method: str) -> bool:
    """Belief: a method called `predict`, `reset_...`, `load_...`, `evaluate` and the like is not trained through.

    If wrong: a bug in a method without a caller is missed.
    """
    return _AROUND_TRAINING.search(method.lower()) is not None


def handles_data(class_name: str) -> bool:
    """Belief: nobody trains through a class with "Dataset", "Transform", "Metric" or the like in its name.

    If wrong: a bug in a method without a caller is missed.
    """
    return _DATA_CLASS.search(class_name) is not None


def is_file_of_data(module: str) -> bool:
    """Belief: nobody trains through the functions of a file called `optim`, `transforms`, `metrics` or the like.

    If wrong: a bug in a function without a caller is missed.
    """
    return _DATA_FILE.search(module.lower()) is not None


@functools.lru_cache(maxsize=1)
def is_file_of_optimizers(text: str) -> bool:
    """Belief: nobody trains through the functions of a file that has the word `Optimizer` in it.

    If wrong: a bug in a function without a caller is missed.
    """
    return "Optimizer" in text


def never_trained(function: str) -> bool:
    """Belief: nobody trains through a function called `generate`, `load_...`, `export`, `nms` or the like.

    If wrong: a bug in a function without a caller is missed.
    """
    return _NEVER_TRAINED.search(function.lower()) is not None


def is_written_by_name(function: str) -> bool:
    """Belief: a function whose name ends in `_` writes to its arguments, and its callers know it.

    If wrong: a bug in a function without a caller is missed.
    """
    return function.endswith("_") and not function.endswith("__")


def may_store(method: str) -> bool:
    """Belief: of unknown objects, only methods called `append`, `put`, `update`, `save` and the like keep an argument.

    If wrong: `fix` rebinds a name although an unknown object holds the tensor; the proof by running finds that.
    """
    return method in _STORING


def keeps_no_result(decorator: str) -> bool:
    """Belief: decorators called `property`, `no_grad`, `wraps` and the like keep no result of their function.

    If wrong: `fix` rebinds a name although the decorator holds the tensor; the proof by running finds that.
    """
    return decorator in _TRANSPARENT_DECORATORS
