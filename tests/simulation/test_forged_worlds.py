"""Worlds whose nets are signed: nothing that a forger writes is ever part of a total."""

from itertools import count, islice

import pytest
from proof.simulator.forger import AMOUNT, forged_net, is_signed, keys_of
from proof.simulator.randomness import stream
from proof.simulator.run import run_seed

from ledger.core.entry import net_of
from ledger.core.signatures import SIGNATURE, signer_of

FEW = [58]
MANY = [seed for seed in islice(filter(is_signed, count()), 16) if seed not in FEW]


@pytest.mark.parametrize("seed", FEW)
def test_no_total_is_what_a_forger_says(seed: int) -> None:
    """Nets are forged, signed anew by who holds the keys, and all else is merged at the end."""
    result = run_seed(seed, is_traced=True)
    assert result.violation is None
    assert any("put forged ~net#" in line for line in result.trace)
    assert any("signer-" in line and "NetSigning" in line for line in result.trace)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", MANY)
def test_no_total_is_what_a_forger_says_in_many_worlds(seed: int) -> None:
    """The same, of more of them."""
    assert run_seed(seed).violation is None


def test_processes_sign_by_either_key() -> None:
    """As in the middle of a change of keys; in other worlds by none."""
    seed = MANY[0]
    found = [keys_of(seed, f"process-{number}") for number in range(20)]
    assert {keys.keys[0].name for keys in found if keys is not None} == {"k1", "k2"}
    assert keys_of(seed + 1, "process-1") is None


def test_a_forged_net_is_whole_but_for_its_signature() -> None:
    """It would count where nets are not signed, and nobody with the keys takes it."""
    keys = keys_of(MANY[0], "reader")
    assert keys is not None
    right = keys.signed(forged_net(stream(0, "right"), None))
    kinds = set()
    for number in range(30):
        forged = forged_net(stream(number, "forged"), right)
        assert net_of(forged).change == 2 * AMOUNT
        assert keys.fault(forged) is not None
        kinds.add((SIGNATURE in forged, signer_of(forged)))
    assert kinds == {(False, ""), (True, "k1"), (True, "k2")}
