"""Two tensors were meant, and there is one: references that were taken for copies."""

from __future__ import annotations

from outplace.knowledge.kind import SilentRule

_NO_TRACE = "Reading a variable leaves no trace in a run."

STATE_DICT_BY_REFERENCE = SilentRule(
    "OUT314",
    "state-dict-by-reference",
    "a state_dict() is kept without a copy, and training goes on",
    of="silent-other",
    message="the stored state_dict() holds the parameters themselves, and this step changes them: keep a deep copy",
    check="error",
    why="state_dict() holds the parameters themselves, not copies. They were changed in place after it was stored, "
    "so it now holds the present weights, and loading it does nothing.",
    remedy="Keep a copy: `copy.deepcopy(model.state_dict())`.",
    kept=True,
    detector="state_dict_by_reference",
    fix="Keep a deep copy of the state",
    form="kept_state_or_items",
)

STATE_DICT_WRITTEN = SilentRule(
    "OUT315",
    "state-dict-written",
    "a model's state_dict() is averaged in place and loaded into another model",
    of="silent-other",
    message="a state_dict() holds the parameters themselves, so this changes the model it came from, which is "
    "trained again later: work on a deep copy",
    check="warning",
    why="state_dict() holds the parameters themselves, not copies. A write to its entries changes the model it came "
    "from. Another model has loaded the result, and this model goes on with it, too.",
    remedy="Work on a copy: `copy.deepcopy(model.state_dict())`.",
    detector="state_dict_written",
    fix="Work on a deep copy",
    form="kept_state",
)

PARAMETERS_BY_REFERENCE = SilentRule(
    "OUT316",
    "parameters-by-reference",
    "parameters are kept without a copy and copied back after training",
    of="silent-other",
    message="what was stored shares the memory of the parameter, and this step changes it: keep a clone",
    check="error",
    why="What was stored shares the memory of the parameter; it is not a copy. The optimizer has changed it in place "
    "since, so copying it back at line {line} does nothing.",
    remedy="Keep a copy: `[p.detach().clone() for p in model.parameters()]`.",
    kept=True,
    detector="meets_itself",
    fix="Keep copies of the parameters",
    form="kept_parameters",
)

SHALLOW_MODEL_COPY = SilentRule(
    "OUT317",
    "shallow-model-copy",
    "copy.copy of a network, or another name for it, is taken for a copy",
    of="silent-other",
    message="copy.copy copies only references: two networks share these parameters, and this step changes both; use "
    "copy.deepcopy",
    check="warning",
    why="Both networks share their parameters ({how}). An optimizer step changes both, and updating one from the "
    "other does nothing.",
    remedy="Give it parameters of its own: `copy.deepcopy(model)`.",
    kept=True,
    detector="shallow_model_copy",
    fix="Make a deep copy",
    form="deep_copy",
)

SNAPSHOT_BY_REFERENCE = SilentRule(
    "OUT318",
    "snapshot-by-reference",
    "what is put back into an attribute is the very tensor that it holds",
    of="silent-other",
    message="the tensor that is assigned back to this attribute later is the one that is written here, so nothing is "
    "restored: keep a clone",
    check="warning",
    no_run=_NO_TRACE,
    no_fix="Where the copy belongs depends on who else reads the snapshot.",
)

COPIED_CONTAINER_WRITTEN = SilentRule(
    "OUT319",
    "copied-container-written",
    "a tensor in a copy of a list or dict is updated in place, and the original is read again",
    of="silent-other",
    message="a copy of a container holds the same tensors: this write changes the tensor in both, and the other "
    "container is read later: assign a new tensor, or copy the tensors",
    check="warning",
    headline="{tensor} was changed by {op}, and the container that was copied holds it, too",
    why="One of `{name}` and `{other}` is a copy of the other. A copy of a list or a dict holds the same tensors, so "
    "this write changes the tensor in both, and both are read later.",
    remedy="Write out of place: `{name}[key] = {name}[key] + v`. Or copy the tensors: `copy.deepcopy({other})`.",
    holder="the other container",
    kept=True,
    detector="tensor_under_two_names",
    fix="Write out of place",
    form="out_of_place",
)

TENSOR_UNDER_TWO_NAMES = SilentRule(
    "OUT320",
    "tensor-under-two-names",
    "a tensor is updated in place, and its old values are read under another name",
    of="silent-other",
    message="another name holds the same tensor, and it is read later for the old values: write out of place, or "
    "keep a clone",
    check="warning",
    headline="{tensor} was changed by {op}, and another name is read for the old values",
    why="`{other}` is the same tensor, or shares its memory: no copy was made. Both names are read after this write, "
    "as if only `{name}` had changed.",
    remedy="Write out of place: `{name} = {name} - v`. Or make a copy first: `{name} = {other}.clone()`.",
    holder="another name",
    kept=True,
    detector="tensor_under_two_names",
    fix="Write out of place",
    form="out_of_place",
)

LEAF_SHARES_MEMORY = SilentRule(
    "OUT321",
    "leaf-shares-memory",
    "a leaf made of another tensor without a copy is trained, and that tensor is read again",
    of="silent-other",
    message="this changes a tensor that was made from another one without a copy, and the other one is read later "
    "for the old values: make it from a clone",
    check="warning",
    why="The optimizer changes a tensor that shares the memory of `{name}`: `detach()`, `.data` and `nn.Parameter` "
    "make no copy. So `{name}` changes, too, and it is read later for the old values.",
    remedy="Make the leaf from a copy: `{name}.detach().clone()`.",
    kept=True,
    detector="leaf_shares_memory",
    fix="Make the leaf of a copy",
    form="own_leaf",
)

DATASET_SAMPLE_WRITTEN = SilentRule(
    "OUT322",
    "dataset-sample-written",
    "a sample that a dataset keeps is scaled in place at each fetch",
    of="silent-other",
    message="the dataset returns the sample that it stores, and this changes it in place at each fetch: return copies",
    check="warning",
    why="The dataset returns the sample that it stores, and this line changes it in place. Each time the sample is "
    "fetched, it is changed once more.",
    remedy="Return copies: `sample = copy.deepcopy(self.samples[index])`. Or write out of place.",
    kept=True,
    detector="dataset_sample_written",
    fix="Hand out copies of the samples",
    form="own_samples",
)

OPTIMIZER_STATE_BY_REFERENCE = SilentRule(
    "OUT334",
    "optimizer-state-by-reference",
    "an optimizer's state_dict() is kept without a copy, stepped on and loaded back",
    of="silent-other",
    message="the stored state_dict() holds the optimizer's momenta themselves, and this step changes them: keep a "
    "deep copy",
    check="error",
    why="The state_dict() of an optimizer holds its momenta themselves, not copies. Later steps changed them in "
    "place, so it now holds the present state, and loading it does nothing.",
    remedy="Keep a copy: `copy.deepcopy(optimizer.state_dict())`.",
    kept=True,
    detector="optimizer_state_by_reference",
    fix="Keep a deep copy of the state",
    form="kept_state",
)

RESCALED_AGAIN = SilentRule(
    "OUT336",
    "rescaled-again",
    "data that stays from step to step is changed in place at each step",
    of="silent-other",
    message="this normalises in place a tensor that the next call normalises again: write out of place",
    check="warning",
    headline="{tensor} was changed by {op} several times, each time on top of the change before",
    why="This tensor stays for the next step or call, and each of them changes it in place. So the second one works "
    "on what the first one has left, and the training sees other values each time.",
    remedy="Write out of place: `adj = adj / deg`. Or work on a copy: `x = x.clone()`. Or do it once, before the "
    "training.",
    holder="the next step",
    kept=True,
    detector="rescaled_again",
    fix="Write out of place",
    form="out_of_place",
)

EXPANDED_PART_WRITTEN = SilentRule(
    "OUT338",
    "expanded-part-written",
    "one part of a tensor whose parts share memory is written, and other parts change",
    of="silent-other",
    message="`expand` makes no copies: all parts along that dimension share one memory, and this changes all of "
    "them: use `repeat`, or a clone",
    check="warning",
    headline="{tensor} shares its memory with other parts of one tensor, and {op} changes these, too",
    why="`expand` and overlapping windows (`unfold`) make no copies: several parts share one memory. A write to one "
    "part changes the others.",
    remedy="Give each part its own memory: `x.expand(n, -1).clone()`, or `x.repeat(n, 1)`.",
    holder="the other places",
    kept=True,
    detector="expanded_part_written",
    fix="Give what is expanded memory of its own",
    form="own_expanded",
)

DEFAULT_ARGUMENT_WRITTEN = SilentRule(
    "OUT339",
    "default-argument-written",
    "a tensor that is the default of an argument is written, and the next call finds it changed",
    of="silent-other",
    message="this tensor is the default of an argument: it is made once and used by all calls, and this changes it "
    "for all: use None as the default, and make the tensor in the function",
    check="warning",
    headline="{tensor} is the default of an argument, and {op} changes it for all later calls",
    why="Python makes the default of an argument once, when the function is defined. All calls without this argument "
    "use the same tensor, with the changes of earlier calls.",
    remedy="Use None as the default, and make the tensor in the function: `if state is None: state = torch.zeros(n)`.",
    holder="the next call",
    detector="default_argument_written",
    no_fix="Where the tensor is to be made, and of what size, is for a person to say.",
)

MEETS_ITSELF = SilentRule(
    "OUT340",
    "meets-itself",
    "one memory is taken for two values: the difference of both is zero, and copying one to the other does nothing",
    of="silent-other",
    no_check="Whether two names lie in the same memory is often decided far from the line where they meet.",
    headline="{tensor} is used as two values but is one memory, and {op} changes both",
    why="Both values share one memory: somewhere a reference was kept instead of a copy. Each write changes both, so "
    "their difference is always zero, and copying one to the other does nothing.",
    remedy="Keep a copy where the old value is stored: `old = p.detach().clone()`, `copy.deepcopy(state)`.",
    holder="the other name",
    kept=True,
    detector="meets_itself",
    no_fix="The run sees where both meet; where the copy should have been made is for a person to say.",
)
