"""A child process of the laboratory with one rule of the ledger broken.

python -m support.mutant_process MUTANT MODULE ARGUMENT...
"""

import runpy
import sys
from collections.abc import Callable
from contextlib import ExitStack

from lab.harness.processes import module_words
from proof.simulator.mutant import Mutant
from proof.simulator.mutants import MUTANTS

from ledger.settings import Settings

OWN_TERMS = Mutant(
    "own-terms",
    "a process takes what must be equal in all of them from the table's contract",
    "what it writes to shards of its own settings is read by no other",
    0,
    (
        (Settings, "check_agrees", lambda _settings, *_accepted: None),
        (Settings, "under", lambda settings, _terms, **_: settings),
    ),
)


def mutant_words(mutant: str) -> Callable[..., list[str]]:
    """Return what returns the words that start a module so, as `module_words` does."""
    return lambda module, *words: module_words("support.mutant_process", mutant, module, *words)


if __name__ == "__main__":
    _, name, module, *arguments = sys.argv
    sys.argv[:] = [module, *arguments]
    with ExitStack() as stack:
        stack.enter_context({OWN_TERMS.name: OWN_TERMS, **MUTANTS}[name].active())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
