import compileall
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import outplace
from outplace.knowledge.ops import lookup

TOOLS = Path(__file__).parents[1] / "tools"

pytest.register_assert_rewrite("side_by_side")

# The same examples on every run: a test that fails by chance in someone else's change tells them nothing. The long
# random runs, which draw new ones, are in benchmarks/.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# What Inductor would do once for each folder that a test compiles in: start helpers, try the processor, and compile
# headers in advance. Each of them takes longer than what these tests compile.
os.environ.update(
    TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="1", TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS="0"
)

# A command that a shell starts in the background ignores Ctrl-C, and so do all its children; some tests send it one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Hundreds of processes import outplace: where Python is told to write no compiled files, each would compile it."""
    if not hasattr(config, "workerinput"):  # once, before the workers of pytest-xdist start
        compileall.compile_dir(Path(outplace.__file__).parent, quiet=2)


@pytest.fixture(scope="session")
def op_tools():
    """What the op table is made with: its generator, its measurements, and torch's own samples of its operations."""
    sys.path.insert(0, str(TOOLS))
    try:
        import generate_op_table
        import op_table_measure
        import op_table_samples
    finally:
        sys.path.remove(str(TOOLS))
    return generate_op_table, op_table_measure, op_table_samples


@pytest.fixture(scope="session")
def sampled_ops(op_tools):
    """The operations of the table that torch has samples of."""
    _, _, samples = op_tools
    return [op for op in samples.op_db() if lookup(op.name) is not None]
