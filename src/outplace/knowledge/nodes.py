"""Autograd nodes in a user's words: which operation made `NativeBatchNormBackward0`, and what its `result1` is.

The node classes of one torch version are listed in the op table (`nodes`: the ATen operation behind each and where its
saved tensors come from). Nodes of other versions, custom Functions and generated nodes are named by their shape.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

from outplace.knowledge._table import table

Origin = Literal["op", "backward", "function", "engine", "unknown"]


class Node(NamedTuple):
    """What made an autograd node.

    `op` is the name to look up in the op table ("mul", "nn.functional.batch_norm" as "batch_norm"), `label` what to
    print ("*", "batch_norm"). `origin` tells an operation from the backward of one (double backward), a custom
    `autograd.Function`, and the engine's own nodes.
    """

    name: str
    op: str
    label: str
    origin: Origin


# Names under which a user knows an ATen operation, where they differ by more than a leading underscore.
_USER_NAMES = {
    "native_batch_norm": "batch_norm",
    "native_batch_norm_legit": "batch_norm",
    "native_batch_norm_legit_no_training": "batch_norm",
    "batch_norm_with_update": "batch_norm",
    "batch_norm_no_update": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "miopen_batch_norm": "batch_norm",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "fused_rms_norm": "rms_norm",
    "native_dropout": "dropout",
    "fused_dropout": "dropout",
    "convolution": "conv",
    "convolution_overrideable": "conv",
    "cudnn_convolution": "conv",
    "cudnn_convolution_transpose": "conv_transpose",
    "miopen_convolution": "conv",
    "miopen_convolution_transpose": "conv_transpose",
    "miopen_depthwise_convolution": "conv",
    "mkldnn_convolution": "conv",
    "mps_convolution": "conv",
    "mps_convolution_transpose": "conv_transpose",
    "nnpack_spatial_convolution": "conv",
    "slow_conv2d": "conv",
    "slow_conv3d": "conv",
    "slow_conv_dilated2d": "conv",
    "slow_conv_dilated3d": "conv",
    "slow_conv_transpose2d": "conv_transpose",
    "slow_conv_transpose3d": "conv_transpose",
    "conv_depthwise2d": "conv",
    "conv_depthwise3d": "conv",
    "mkldnn_linear": "linear",
    "max_pool2d_with_indices": "max_pool2d",
    "max_pool3d_with_indices": "max_pool3d",
    "mkldnn_max_pool2d": "max_pool2d",
    "mkldnn_max_pool3d": "max_pool3d",
    "mkldnn_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "mkldnn_reshape": "reshape",
    "mkldnn_rnn_layer": "lstm",
    "lstm_mps": "lstm",
    "cudnn_rnn": "rnn",
    "miopen_rnn": "rnn",
    "thnn_fused_lstm_cell": "lstm_cell",
    "thnn_fused_gru_cell": "gru_cell",
    "cudnn_ctc_loss": "ctc_loss",
    "miopen_ctc_loss": "ctc_loss",
    "cudnn_grid_sampler": "grid_sample",
    "grid_sampler_2d": "grid_sample",
    "grid_sampler_2d_cpu_fallback": "grid_sample",
    "grid_sampler_3d": "grid_sample",
    "cudnn_affine_grid_generator": "affine_grid",
    "affine_grid_generator": "affine_grid",
    "prelu_kernel": "prelu",
    "rrelu_with_noise": "rrelu",
    "rrelu_with_noise_functional": "rrelu",
    "euclidean_dist": "cdist",
    "safe_softmax": "softmax",
    "nll_loss2d": "nll_loss",
    "constant_pad_nd": "pad",
    "reflection_pad1d": "pad",
    "reflection_pad2d": "pad",
    "reflection_pad3d": "pad",
    "replication_pad1d": "pad",
    "replication_pad2d": "pad",
    "replication_pad3d": "pad",
    "im2col": "unfold",
    "col2im": "fold",
    "embedding_renorm": "embedding",
    "weight_norm_interface": "weight_norm",
    "to_copy": "to",
    "lift_fresh": "tensor",
    "index": "__getitem__",
    "unsafe_index": "__getitem__",
    "unsafe_masked_index": "__getitem__",
    "index_put_impl": "index_put",
    "unsafe_index_put": "index_put",
    "unsafe_masked_index_put_accumulate": "index_put",
    "unsafe_view": "view",
    "reshape_alias": "reshape",
    "reshape_copy": "reshape",
    "unsafe_split": "split",
    "unsafe_split_with_sizes": "split",
    "split_with_sizes": "split",
    "linalg_cholesky_ex": "linalg.cholesky",
    "linalg_inv_ex": "linalg.inv",
    "linalg_solve_ex": "linalg.solve",
    "linalg_lu_factor_ex": "linalg.lu_factor",
    "unique2": "unique",
    "unique_dim": "unique",
    "unique_dim_consecutive": "unique_consecutive",
    "flash_attention": "scaled_dot_product_attention",
    "efficient_attention": "scaled_dot_product_attention",
    "cudnn_attention": "scaled_dot_product_attention",
    "fft_c2c": "fft",
    "fft_c2r": "irfft",
    "fft_r2c": "rfft",
}

# How an operation is written, where that is not its name.
_LABELS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "pow": "**",
    "mm": "@",
    "bmm": "@ (bmm)",
    "mv": "@ (mv)",
    "addmm": "linear/addmm",
    "remainder": "%",
    "__getitem__": "indexing (x[...])",
    "index_put": "index_put (x[...] = v)",
    "rnn": "the RNN",
    "lstm": "LSTM",
    "lstm_cell": "LSTMCell",
    "gru_cell": "GRUCell",
    "to": ".to()",
}

_ENGINE = {
    "AccumulateGrad": "the leaf's gradient accumulator",
    "CopySlices": "a write through a view",
    "CopyBackwards": "copy_",
    "DelayedError": "an operation without a derivative",
    "Error": "an operation without a derivative",
    "NotImplemented": "an operation whose derivative is not implemented",
    "UndefinedGrad": "an undefined gradient",
    "UndefinedGradBackward": "an undefined gradient",
    "SendRpcBackward": "an RPC call",
}

# What a saved attribute is called. The first table wins over the second: (operation as the user knows it, attribute).
_PHRASES_BY_OP = {
    ("addmm", "mat1"): "its input",
    ("addmm", "mat2"): "its weight (transposed)",
    ("batch_norm", "result1"): "the mean it computed",
    ("batch_norm", "result2"): "the inverse deviation it computed",
    ("batch_norm", "result3"): "its reserved buffer",
    ("batch_norm", "result4"): "its reserved buffer",
    ("layer_norm", "result1"): "the mean it computed",
    ("layer_norm", "result2"): "the inverse deviation it computed",
    ("group_norm", "result1"): "the mean it computed",
    ("group_norm", "result2"): "the inverse deviation it computed",
    ("rms_norm", "result1"): "the inverse deviation it computed",
    ("dropout", "result1"): "the mask it drew",
    ("weight_norm", "result1"): "the norms it computed",
    ("rrelu", "noise"): "the noise it drew",
    ("div", "self"): "its first operand (the numerator)",
    ("div", "other"): "its second operand (the divisor)",
    ("pow", "self"): "its base",
    ("mm", "self"): "its first operand",
    ("mm", "mat2"): "its second operand",
    ("bmm", "self"): "its first operand",
    ("bmm", "mat2"): "its second operand",
    ("mv", "self"): "its matrix",
    ("dot", "self"): "its first operand",
    ("dot", "tensor"): "its second operand",
    ("where", "condition"): "its condition",
    ("cholesky_solve", "input2"): "its factor",
    ("embedding_bag", "offsets"): "its offsets",
    ("lerp", "end"): "its end value",
    ("lstm", "hx_"): "its initial hidden state",
    ("lstm", "cx_"): "its initial cell state",
    ("embedding", "indices"): "its indices",
    ("nll_loss", "self"): "its input (the log-probabilities)",
    ("nll_loss", "total_weight"): "the total weight it computed",
    ("max_pool2d", "result1"): "the indices of its maxima",
    ("max_pool3d", "result1"): "the indices of its maxima",
    ("adaptive_max_pool2d", "result1"): "the indices of its maxima",
    ("adaptive_max_pool3d", "result1"): "the indices of its maxima",
    ("fractional_max_pool2d", "result1"): "the indices of its maxima",
    ("fractional_max_pool3d", "result1"): "the indices of its maxima",
}

_PHRASES = {
    "block": "the weights of its block, to run it again",
    "recomputed": "what its block saves when it is run again",
    "result": "its result",
    "output": "its result",
    "result0": "its result",
    "self": "its input",
    "input": "its input",
    "data": "its input",
    "weight": "its weight",
    "bias": "its bias",
    "other": "its second operand",
    "mat1": "its first matrix",
    "mat2": "its second matrix",
    "batch1": "its first batch of matrices",
    "batch2": "its second batch of matrices",
    "tensor1": "its first factor",
    "tensor2": "its second factor",
    "vec": "its vector",
    "vec1": "its first vector",
    "vec2": "its second vector",
    "x1": "its first input",
    "x2": "its second input",
    "input1": "its first input",
    "input2": "its second input",
    "input3": "its third input",
    "exponent": "its exponent",
    "mat": "its matrix",
    "A": "its matrix",
    "log_probs": "its log-probabilities",
    "condition": "its condition",
    "target": "its target",
    "targets": "its targets",
    "mask": "its mask",
    "index": "its index",
    "indices": "its indices",
    "src": "its source",
    "source": "its source",
    "query": "its query",
    "key": "its key",
    "value": "its value",
    "attn_mask": "its attention mask",
    "attn_bias": "its attention bias",
    "running_mean": "its running mean",
    "running_var": "its running variance",
    "save_mean": "the mean it computed",
    "save_var": "the deviation it computed",
    "save_invstd": "the inverse deviation it computed",
    "mean": "its mean",
    "rstd": "its inverse deviation",
    "pos_weight": "its pos_weight",
    "min": "its lower bound",
    "max": "its upper bound",
    "grid": "its grid",
    "hx": "its hidden state",
    "cx": "its cell state",
    "logsumexp": "the log-sum-exp it computed",
    "log_sumexp": "the log-sum-exp it computed",
    "softmax_logsumexp": "the log-sum-exp it computed",
    "grad_output": "the gradient it was given",
    "grad_out": "the gradient it was given",
    "noise": "its noise",
    "self_or_result": "its input or its result",
}

# Saved results that have a phrase of their own above.
_COMPUTED = {"result", "result0", "output", "logsumexp", "log_sumexp", "softmax_logsumexp", "noise", "self_or_result"}


def by_node(name: str) -> Node:
    """The operation behind an autograd node, by the node's name (`MulBackward0`, `Mul`, `torch::autograd::CopySlices`).

    Always answers: a name no table knows is a custom Function if it looks like one, `unknown` otherwise.
    """
    return _by_node(re.split(r"::|\.", name.strip().strip("<>").split(" ")[0])[-1])


@cache
def _by_node(name: str) -> Node:
    if name in _ENGINE:
        return Node(name, name, _ENGINE[name], "engine")
    known = _nodes().get(name) or _nodes().get(f"{name}Backward0")
    if known is not None:
        return _named(name, known[0])
    if generated := re.fullmatch(r"GeneratedBackwardFor_(\w+?)_(\w+)_\w+", name):
        op = f"{generated[1]}::{generated[2]}"
        return Node(name, op, f"the custom operator {op}", "function")
    if numbered := re.fullmatch(r"(\w+)Backward(?:Autograd[A-Za-z]+)?\d+(?:_copy)?", name):
        return _named(name, _snake(numbered[1]))
    if name == "CheckpointFunctionBackward":
        return Node(name, "checkpoint", "checkpoint", "function")
    if custom := re.fullmatch(r"(\w+)Backward", name):
        return Node(name, custom[1], f"the custom Function {custom[1]}", "function")
    return Node(name, _snake(name), name, "unknown")


def saved_phrase(node: str, saved_as: str) -> str:
    """What a saved attribute is to its node: "its result", "its second operand", "its weight (transposed)"."""
    result = by_node(node)
    attribute = re.sub(r"^_?(raw_)?saved_(?!tensors)", "", saved_as)
    item = re.fullmatch(r"(\w+)\[(\d+)\]", attribute)
    if item:
        attribute = item[1]
    if attribute == "saved_tensors":
        number = f" (tensor {item[2]})" if item else ""
        return f"what it passed to save_for_backward{number}"
    return _phrase(result, attribute) + (f" (number {int(item[2])})" if item and int(item[2]) else "")


@cache
def keeps_result(node: str, saved_as: str) -> bool:
    """Is it the node's own result, or a part of it?"""
    return "its result" in saved_phrase(node, saved_as)


def describe_saved(node: str, saved_as: str) -> str:
    """One clause on what a node keeps: "exp keeps its result", "`*` (multiply) keeps its second operand"."""
    return f"{spelled(by_node(node).label)} keeps {saved_phrase(node, saved_as)}"


_SIGNS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "@": "matmul", "%": "remainder"}


def spelled(label: str) -> str:
    """A sign alone is easily overlooked in a sentence: `*` (multiply)."""
    sign, *rest = label.split(maxsplit=1)
    return f"`{sign}` {rest[0] if rest else f'({_SIGNS[sign]})'}" if sign in _SIGNS else label


def _phrase(made: Node, attribute: str) -> str:
    if made.origin == "op" and (made.op, attribute) in _PHRASES_BY_OP:
        return _PHRASES_BY_OP[made.op, attribute]
    known = _nodes().get(made.name) or _nodes().get(f"{made.name}Backward0")
    role = known[1].get(attribute, "") if known else ""
    if role == "out" and attribute == "indices":
        return "the indices of its result"
    if role == "out" and attribute not in _COMPUTED:
        return f"one of its results ({attribute})"
    if role == "first":
        return "its first operand"
    if attribute in _PHRASES:
        return _PHRASES[attribute]
    if re.fullmatch(r"result\d+", attribute):
        return f"one of its results ({attribute})"
    return f"its argument {attribute}" if attribute else "a tensor"


def _named(node: str, aten: str) -> Node:
    if re.search(r"_backward($|_)", aten):
        inner = _user_name(re.sub(r"_backward($|_.*)", "", aten).removesuffix("_dense"))
        return Node(node, inner, f"the backward of {_LABELS.get(inner, inner)}", "backward")
    op = _user_name(aten)
    return Node(node, op, _LABELS.get(op, op), "op")


def _user_name(aten: str) -> str:
    name = aten.strip("_")
    if name in _USER_NAMES:
        return _USER_NAMES[name]
    if name.startswith("upsample_"):
        return "interpolate"
    if name.startswith("scaled_dot_product_"):
        return "scaled_dot_product_attention"
    if name.startswith("fake_quantize_"):
        return "fake_quantize"
    if name.startswith("foreach_"):
        return f"_{name}"
    for family in ("linalg", "special", "fft", "sparse"):
        if name.startswith(f"{family}_") and name != "sparse_mask":
            return f"{family}.{name.removeprefix(family + '_')}"
    return name


def _snake(stem: str) -> str:
    """`LinalgVectorNorm` as `linalg_vector_norm`, `AvgPool2D` as `avg_pool2d`: ATen's own rule, backwards."""
    parts = re.sub(r"(?<=\d)([A-Z])(?![a-z])", lambda m: m[1].lower(), stem)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", parts).lower()


def _nodes() -> dict[str, tuple[str, dict[str, str]]]:
    nodes: dict[str, tuple[str, dict[str, str]]] = table()["nodes"]
    return nodes
