"""Settings of runs under faults that end within a test."""

from collections.abc import Mapping

SHORT_TIMES: Mapping[str, float] = {
    "settle": 3.6,
    "retry_horizon": 1.0,
    "observation_delay": 0.5,
    "request_timeout": 0.8,
    "write_deadline": 0.9,
    "contract_life": 3.0,
}
"""A request may take settle - retry_horizon: short for a test, long enough for a busy machine."""
FOLD_AGE_SECONDS = 3.8
