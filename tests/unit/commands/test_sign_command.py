"""What `ledger table sign` says of the nets of a table."""

import pytest

from ledger.administration.net_signer import NetSigning
from ledger.commands.contract import _show


@pytest.mark.parametrize("required", [True, False])
def test_why_a_net_is_not_signed_is_said(
    required: bool,  # noqa: FBT001
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each fault, and that of unsigned nets none is signed once a signature is required."""
    _show(NetSigning(there=1, signed=2, faulty=1, faults=["it has none"]), required=required)
    out, err = capsys.readouterr()
    assert "3 net changes are signed, 2 of them now" in " ".join(out.split())
    assert "it has none" in err
    assert ("was written without the key" in " ".join(err.split())) == required


def test_a_table_that_is_signed_needs_no_advice(capsys: pytest.CaptureFixture[str]) -> None:
    """Then there is nothing to say."""
    _show(NetSigning(there=1), required=True)
    assert capsys.readouterr().err == ""
