"""What the tests of conformance share."""

import pytest

# The suite lies in plain modules; without this a failed assertion would not show its values.
pytest.register_assert_rewrite(
    "conformance.store_writes", "conformance.store_groups", "conformance.store_reads"
)
