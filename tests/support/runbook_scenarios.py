"""The scenarios of all runbooks."""

from support import (
    runbook_budgets,
    runbook_calls,
    runbook_forgeries,
    runbook_merging,
    runbook_regions,
    runbook_restoring,
    runbook_secrets,
    runbook_upgrading,
)

SCENARIOS = (
    *runbook_regions.SCENARIOS,
    *runbook_merging.SCENARIOS,
    *runbook_calls.SCENARIOS,
    *runbook_budgets.SCENARIOS,
    *runbook_forgeries.SCENARIOS,
    *runbook_restoring.SCENARIOS,
    *runbook_upgrading.SCENARIOS,
    *runbook_secrets.SCENARIOS,
)
