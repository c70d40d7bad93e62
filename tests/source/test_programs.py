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
    "third_party",
    "torchscript_writes",
}

# What the source does not tell: code that is text, what a coroutine is sent, when a gradient is there,
# memory that a buffer or a storage shares, a mode that a module is in, a scaler's step.
SEEN_ONLY_WHEN_RUN = {
    "config_execfile",
    "exec_generated_layer",
    "generator_coroutine_send",
    "optimizer_in_backward_hook",
    "silent_batch_buffer_refilled",
    "silent_batchnorm_eval_then_train",
    "silent_storage_filled",
    "silent_unscaled_gradients_in_graph",
    "silent_vector_to_parameters",
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
    errors = {(Path(f.site.file).name, f.site.line) for f in findings if f.severity == "error"}
    written = {(Path(file).name, line) for file, line in program.overwrites}
    assert errors <= written
    if program.kind != "legal" and program.name not in SEEN_ONLY_WHEN_RUN:
        assert written <= {(Path(f.site.file).name, f.site.line) for f in findings}
