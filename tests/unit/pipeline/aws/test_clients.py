from pathlib import Path

import pytest

from ledger.core.errors import LedgerError
from ledger.pipeline.aws.clients import open_client


@pytest.mark.parametrize("name", ["AWS_CONFIG_FILE", "AWS_PROFILE"])
async def test_a_configuration_that_cannot_be_used_is_one_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of another kind, or a profile that is not in it, is named with the service."""
    file = tmp_path / "config"
    file.write_text("counter,change\n")
    monkeypatch.setenv(name, str(file))
    opening = open_client("sqs", region="us-east-1", request_timeout=1.0, tries_max=1)
    with pytest.raises(LedgerError, match=r"no client of sqs in us-east-1: .*config"):
        async with opening:
            pytest.fail("it was opened")
