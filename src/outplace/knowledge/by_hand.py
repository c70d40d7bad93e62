"""Names of operations that torch cannot be asked for: numpy, einops, other devices, methods of frameworks.

Each collection answers one question. What torch itself can tell is measured and stands in the op table.
"""

from __future__ import annotations

TRAITS: dict[str, tuple[str, ...]] = {
    "may_share": (
        "numpy", "cuda", "xpu", "npu", "pin_memory", "type", "rearrange", "requires_grad_", "detach_", "as_subclass",
    ),
    "layout_by_kernel": (
        "nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward",
        "nn.MultiheadAttention", "nn.Transformer", "nn.TransformerEncoder", "nn.TransformerDecoder",
        "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer", "nn.LSTM", "nn.GRU", "nn.RNN", "einsum",
        "tensordot", "inner", "to", "type", "empty_strided", "empty_permuted", "new_empty_strided", "quantile",
        "nanquantile",
    ),
    "dtype_by_argument": ("stft", "to", "type"),
    "keeps_shape": ("nn.SyncBatchNorm",),
    "mean_of_one": (
        "nn.AdaptiveAvgPool2d", "nn.AdaptiveAvgPool3d", "nn.functional.adaptive_avg_pool2d",
        "nn.functional.adaptive_avg_pool3d",
    ),
    "keeps_first_state": ("nn.LSTM", "nn.GRU", "nn.RNN"),
    "returns_state": ("nn.LSTM", "nn.GRU", "nn.RNN", "nn.LSTMCell", "nn.MultiheadAttention"),
    "folds_operands": ("matmul", "nn.functional.linear", "nn.Linear", "einsum", "tensordot", "inner"),
    "turns_weight": ("nn.functional.linear", "nn.Linear"),
    "keeps_views": (
        "einsum", "tensordot", "inner", "outer", "ger", "nn.functional.max_pool1d", "nn.MaxPool1d", "nn.LSTM",
        "nn.LSTMCell", "nn.GRU", "nn.GRUCell", "nn.RNN", "nn.RNNCell", "nn.MultiheadAttention", "nn.Transformer",
        "nn.TransformerEncoder", "nn.TransformerDecoder", "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer",
    ),
    "keeps_loss_of_samples": ("nn.functional.ctc_loss", "nn.CTCLoss"),
    "compares": (
        "nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.smooth_l1_loss", "nn.functional.huber_loss",
        "nn.functional.kl_div", "nn.functional.cosine_similarity", "nn.functional.pairwise_distance", "dist", "sub",
    ),
    "raises": ("pow", "sqrt", "rsqrt", "square"),
    "one_number": (
        "zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like",
    ),
    "identity": ("eye",),
    "uninitialised": ("empty", "new_empty", "empty_like"),
    "made_like": ("zeros_like", "ones_like", "full_like", "empty_like"),
}  # fmt: skip
"""Traits beside the measured ones. Each depends on more than a sample shows: on sizes, devices, or inner operations.

- `may_share`: the result may lie in the memory of the argument, on another device or of another library.
- `layout_by_kernel`: a kernel, chosen by device and size, or an argument decides how the result lies.
- `dtype_by_argument`: an argument decides the dtype of the result.
- `mean_of_one`: a pooling to one element is computed as a mean, which saves nothing.
- `keeps_first_state`: it saves the state that it is given to begin with.
- `returns_state`: it returns a tuple, with a state or weights beside the result.
- `folds_operands`: it reshapes operands of more than two dimensions first. What it saves is a copy if no view can be.
- `turns_weight`: it saves a transposed view of its weight.
- `keeps_views`: it saves views of its operands, whatever these are.
- `keeps_loss_of_samples`: it saves the loss of each sample, and returns it only if it is not reduced.
- `compares`: it is a loss or a distance of its first two arguments.
- `raises`: it raises each element to a power.
- `one_number`, `identity`, `uninitialised`: what a factory fills its tensor with.
- `made_like`: it makes a tensor of the shape of another one.
"""

KERNEL_FAMILIES = (
    "conv", "Conv", "pool", "Pool", "batch_norm", "BatchNorm", "instance_norm", "InstanceNorm", "group_norm",
    "GroupNorm", "Pad", "Cell", "interpolate", "Upsampl",
)  # fmt: skip
"""Parts of the names of operations that other devices lay out in another way than the CPU, where they were measured."""

TURNED_FAMILIES = ("linalg.", "fft.")
"""Beginnings of names: their libraries give some of several results in another order."""

ARRAY_WRITING_METHODS = frozenset(("fill", "itemset", "partition", "put", "resize", "sort"))
"""Methods of numpy arrays that write them."""
ARRAY_WRITING_FUNCTIONS = frozenset(
    ("at", "copyto", "fill_diagonal", "nan_to_num", "place", "put", "put_along_axis", "putmask", "shuffle")
)
"""Functions of numpy that write their first argument."""
ARRAY_VIEWS = frozenset(("asarray", "ravel", "reshape", "squeeze", "swapaxes", "transpose", "view"))
"""Functions of numpy and methods of arrays whose result may lie in the same memory."""
ARRAYS_OF_TENSORS = frozenset(("numpy", "__array__"))
"""Methods of tensors that give an array in their memory."""

MODULE_RETURNS_ITSELF = frozenset(
    ("apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "share_memory", "to",
     "train", "type")
)  # fmt: skip
"""Methods of modules that return the module."""
PASSES_ITS_INPUT = frozenset(("StochasticDepth", "DropPath"))
"""Modules of other libraries whose output may be their very input."""
SHARED_TENSOR_NAMES = frozenset(("add", "float", "split", "to"))
"""Methods of tensors that strings, sets or modules have too. An argument that is asked for them is mostly a tensor."""
SAMPLERS = frozenset(("sample", "rsample"))
"""Methods of distributions that draw at random."""

CALLED_AS = {
    "add": {"add"},
    "sub": {"sub", "subtract"},
    "mul": {"mul", "multiply", "dropout", "Dropout"},
    "div": {"div", "divide", "true_divide"},
    "elu": {"elu", "celu", "selu", "ELU", "CELU", "SELU"},
    "relu": {"relu", "ReLU"},
    "leaky_relu": {"leaky_relu", "LeakyReLU"},
    "threshold": {"threshold", "Threshold"},
    "hardtanh": {"hardtanh", "relu6", "Hardtanh", "ReLU6"},
}
"""The names of functions and modules that end in an operation of ATen, where they differ from its own."""
FLAGGED_KERNELS = frozenset(("rrelu_with_noise", "feature_dropout"))
"""Operations of ATen behind functions with an `inplace` flag, where they are called otherwise."""
MADE_BY: dict[str, tuple[str, ...]] = {
    "linalg.vector_norm": ("norm", "vector_norm", "normalize"),
    "addmm": ("linear", "addmm", "bilinear"),
    "mm": ("matmul", "mm", "linear", "einsum", "tensordot"),
    "bmm": ("matmul", "bmm", "einsum", "baddbmm"),
    "mv": ("matmul", "mv"),
    "dot": ("matmul", "dot", "inner"),
    "conv": ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    "pow": ("square",),
    "nll_loss": ("cross_entropy",),
    "max_pool2d_with_indices": ("max_pool2d",),
    "scaled_dot_product_flash_attention_for_cpu": ("scaled_dot_product_attention",),
    "index": ("__getitem__",),
}
"""Functions whose node has another name than the function, by the operation of the node."""
MADE_BY_LAYERS = frozenset(("addmm", "conv", "layer_norm", "batch_norm", "group_norm", "embedding", "prelu"))
"""Operations whose nodes only modules make: no function has their name."""
SLOPED = ("leaky_relu", "elu", "celu")
"""Activations whose in-place form cannot be differentiated for a negative slope."""
IN_PLACE_BY_NAME = frozenset(("requires_grad_", "share_memory_", "retain_grad_", "rename_", "_coalesced_"))
"""Methods that change no value that a graph could need."""
MOVE_NO_VERSION = frozenset(
    ("apply_", "map_", "map2_", "_amp_foreach_non_finite_check_and_unscale_", "_fused_adagrad_", "_fused_adam_",
     "_fused_adamw_", "_fused_sgd_")
)  # fmt: skip
"""Writes that do not change the version counter."""
