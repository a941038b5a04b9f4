"""What is deployed, made from the settings: templates and policies as plain values.

CloudFormation cannot loop over regions.yaml, so the templates are generated from it: pure functions
from `Settings` to dictionaries, and `template_text` to text. `ledger deploy` is the command; copies
for the shipped regions.yaml are in deploy/, and a test compares them with the generated text.

Nothing here calls AWS.

Pure: no clock, no randomness, no I/O.
"""

from ledger.administration.templates.archive_bucket import archive_template
from ledger.administration.templates.permissions import (
    ACCOUNT_EXAMPLE,
    iam_template,
    policy,
)
from ledger.administration.templates.pipeline_function import pipeline_template
from ledger.administration.templates.replication_alarms import replication_template
from ledger.administration.templates.roles import Role, RoleGrant, grants
from ledger.administration.templates.scheduled_job import compactor_template
from ledger.administration.templates.service_function import service_template
from ledger.administration.templates.table import table_template
from ledger.administration.templates.table_policy import table_policy
from ledger.administration.templates.template_text import as_json, as_yaml

__all__ = [
    "ACCOUNT_EXAMPLE",
    "Role",
    "RoleGrant",
    "archive_template",
    "as_json",
    "as_yaml",
    "compactor_template",
    "grants",
    "iam_template",
    "pipeline_template",
    "policy",
    "replication_template",
    "service_template",
    "table_policy",
    "table_template",
]
