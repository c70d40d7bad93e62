import pytest

pytest.register_assert_rewrite("side_by_side")
