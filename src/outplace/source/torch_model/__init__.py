"""What torch does with abstract values. The interpreter imports only from here."""

from outplace.source.torch_model.arrays import forget_array
from outplace.source.torch_model.dispatch import attribute, method, set_attribute
from outplace.source.torch_model.einops import call as call_einops
from outplace.source.torch_model.functions import GRAD_MODES, call, torch_attribute
from outplace.source.torch_model.indexing import check_kept, get_item, set_item
from outplace.source.torch_model.layers import is_no_child, run_layer
from outplace.source.torch_model.leaf_aliases import check_put_back
from outplace.source.torch_model.library import defines_operator, run_operator
from outplace.source.torch_model.methods import is_tensor_method
from outplace.source.torch_model.modules import (
    children_of,
    construct,
    forget_state,
    init_container,
    note_shallow,
    object_attribute,
    own_state,
    run_module,
    super_attribute,
)
from outplace.source.torch_model.operations import augmented, binary, run_op
from outplace.source.torch_model.optimizers import make_optimizer, note_replaced
from outplace.source.torch_model.parametrized import check_remade
from outplace.source.torch_model.shapes import takes_sizes
from outplace.source.torch_model.tensors import copied, depend_on, fresh, node_of, parameter, tensors_in
from outplace.source.torch_model.type_checks import is_instance
from outplace.source.torch_model.writing import check_appended, check_appended_array, check_index, numpy_write

__all__ = [
    "GRAD_MODES",
    "attribute",
    "augmented",
    "binary",
    "call",
    "call_einops",
    "check_appended",
    "check_appended_array",
    "check_index",
    "check_kept",
    "check_put_back",
    "check_remade",
    "children_of",
    "construct",
    "copied",
    "defines_operator",
    "depend_on",
    "forget_array",
    "forget_state",
    "fresh",
    "get_item",
    "init_container",
    "is_instance",
    "is_no_child",
    "is_tensor_method",
    "make_optimizer",
    "method",
    "node_of",
    "note_replaced",
    "note_shallow",
    "numpy_write",
    "object_attribute",
    "own_state",
    "parameter",
    "run_layer",
    "run_module",
    "run_op",
    "run_operator",
    "set_attribute",
    "set_item",
    "super_attribute",
    "takes_sizes",
    "tensors_in",
    "torch_attribute",
]
