"""The programs of tests/cases, read instead of run: no false error anywhere, and the writing lines found."""

from pathlib import Path

import pytest
from tests.cases.program import Program, all_programs

from outplace.model import Finding
from outplace.source.analysis import check_file
from outplace.source.project import Project

# Here the line of the run is another than the line of the source: the run stops at the first write, or sees only the
# call of compiled, scripted or third-party code.
OTHER_LINES = {
    "case_predicted_box_clip",
    "case_sinusoid_position_table",
    "case_yolo_head_bias_prior",
    "compiled_region_writes",
    "fx_traced_module",
    "retried_after_refused_write",
    "third_party",
    "torchscript_writes",
}

RAISED_AT_ONCE = {"leaf", "leaf-view", "multi-view", "nograd-view", "custom-view", "inference", "out-arg", "expanded"}

# What the source does not tell, or not to us: code that is text or found by a computed path, what a coroutine is sent,
# when a gradient is ready and what a custom backward then writes, what modes, policies and library modules do, which
# function a dispatcher picks, rounds of a loop that end in many different ways, which dimension of memory is expanded,
# memory that a buffer, a file or a storage shares, a mode that a module is in, a scaler's step, what `.cpu()` copies or
# hands back, what a dataset or a namedtuple is made of, entries of a dict that are one tensor, what an optimizer keeps
# in its state, which tensors vmap maps, the slope of an activation.
SEEN_ONLY_WHEN_RUN = {
    "checkpoint_selective_cached",
    "config_execfile",
    "expanded_initial_state",
    "fake_quantize_two_forwards",
    "func_grad_captured_written",
    "function_backward_writes_shared",
    "generator_coroutine_send",
    "mode_that_writes_results",
    "namespace_folder",
    "negative_slope_in_place",
    "optimizer_in_backward_hook",
    "silent_batch_buffer_refilled",
    "silent_batchnorm_eval_then_train",
    "silent_block_changes_its_temperature",
    "silent_best_weights_on_cpu",
    "silent_comprehension_of_one_tensor",
    "silent_function_writes_what_it_saved",
    "silent_gradient_buffer_handed_out",
    "silent_history_in_dict",
    "silent_last_gradient_in_state",
    "silent_memmap_centred",
    "silent_pool_of_one_storage",
    "silent_prompt_in_the_embedding",
    "silent_replay_over_one_array",
    "silent_storage_filled",
    "silent_unscaled_gradients_in_graph",
    "silent_vector_to_parameters",
    "singledispatch_update",
    "try_except_else_paths",
    "vmap_zeros_written",
}


def _findings(program: Program) -> list[Finding]:
    folder = Path(program.folder)
    single = folder / f"{program.name}.py"
    package = folder / program.name if program.command[0] == "-m" else folder
    files = [single] if single.exists() else sorted(package.rglob("*.py"))
    project = Project([str(folder)])
    found = [finding for file in files for finding in check_file(str(file), file.read_text(), project).findings]
    return [finding for finding in found if "site-packages" not in finding.site.file]


@pytest.mark.parametrize("program", all_programs(), ids=lambda program: program.name)
def test_program(program: Program) -> None:
    if program.name in OTHER_LINES:
        return
    findings = _findings(program)
    further = program.kind if program.kind in RAISED_AT_ONCE else None  # a run ends at the first of them
    errors = {(Path(f.site.file).name, f.site.line) for f in findings if f.severity == "error" and f.kind != further}
    written = {(Path(file).name, line) for file, line in program.overwrites}
    assert errors <= written
    if program.kind != "legal" and program.name not in SEEN_ONLY_WHEN_RUN:
        missed = written - {(Path(f.site.file).name, f.site.line) for f in findings}
        assert not missed, (
            f"check does not find {sorted(missed)}. If the source cannot show this bug, add {program.name!r} to "
            "SEEN_ONLY_WHEN_RUN in tests/source/test_programs.py, and say there why"
        )
