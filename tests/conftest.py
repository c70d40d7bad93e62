import signal

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("side_by_side")

# The same examples on every run: a test that fails by chance in someone else's change tells them nothing. The long
# random runs, which draw new ones, are in benchmarks/.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A command that a shell starts in the background ignores Ctrl-C, and so do all its children; some tests send it one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
