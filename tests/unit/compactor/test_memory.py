"""What a compactor remembers while it opens its table again."""

from compactor.memory import MergeMemory


def test_a_table_that_is_opened_again_may_have_another_contract() -> None:
    """So nothing stays that the contract said: which budgets are due, what was put again."""
    memory = MergeMemory()
    memory.budgets_due.note("budget", 1.0)
    again = memory.opened_again()
    assert (again.seen, again.own_folds, again.pace) == (
        memory.seen,
        memory.own_folds,
        memory.pace,
    )
    assert again.repeats is not memory.repeats
    assert again.budgets_due.due(now=2.0) == []
