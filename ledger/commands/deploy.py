"""`ledger deploy`: writes the CloudFormation templates and the IAM policies of regions.yaml.

Nothing is sent to AWS: the text goes to standard output, or to a file.
"""

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger.administration.templates import (
    ACCOUNT_EXAMPLE,
    Role,
    archive_template,
    as_json,
    as_yaml,
    compactor_template,
    iam_template,
    pipeline_template,
    policy,
    replication_template,
    service_template,
    table_policy,
    table_template,
)
from ledger.administration.templates.archive_bucket import ARCHIVE_COMMENT
from ledger.administration.templates.permissions import IAM_COMMENT
from ledger.administration.templates.pipeline_function import PIPELINE_COMMENT
from ledger.administration.templates.replication_alarms import REPLICATION_COMMENT
from ledger.administration.templates.scheduled_job import COMPACTOR_COMMENT
from ledger.administration.templates.service_function import SERVICE_COMMENT
from ledger.administration.templates.table import TABLE_COMMENT, Extras, pairs
from ledger.administration.templates.table_policy import check_size
from ledger.administration.warm_throughput import WarmThroughput
from ledger.commands.outputs import Force, write_output
from ledger.commands.regions import checked_region
from ledger.core.errors import InvalidInput
from ledger.runtime.command_line import Config, new_app
from ledger.settings import Settings

app = new_app(
    about="Write CloudFormation templates and IAM policies for the regions of regions.yaml."
)


class TemplateName(StrEnum):
    """A CloudFormation template that can be written."""

    TABLE = "table"
    COMPACTOR = "compactor"
    PIPELINE = "pipeline"
    IAM = "iam"
    REPLICATION = "replication"
    ARCHIVE = "archive"
    SERVICE = "service"


TEMPLATES: dict[TemplateName, tuple[Callable[[Settings], dict[str, Any]], tuple[str, ...]]] = {
    TemplateName.TABLE: (table_template, TABLE_COMMENT),
    TemplateName.COMPACTOR: (compactor_template, COMPACTOR_COMMENT),
    TemplateName.PIPELINE: (pipeline_template, PIPELINE_COMMENT),
    TemplateName.IAM: (iam_template, IAM_COMMENT),
    TemplateName.REPLICATION: (replication_template, REPLICATION_COMMENT),
    TemplateName.ARCHIVE: (archive_template, ARCHIVE_COMMENT),
    TemplateName.SERVICE: (service_template, SERVICE_COMMENT),
}

OF_THE_TABLE = "table"
"""The name of a replica's resource policy, among those of roles."""

OutputOption = Annotated[
    Path | None, typer.Option("--output", help="File to write.", show_default="standard output")
]


def _role(name: str) -> Role:
    if name not in set(Role):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(Role)}, {OF_THE_TABLE}")
    return Role(name)


@app.command("template")
def write_template(
    name: Annotated[TemplateName, typer.Argument(help="What to deploy.")],
    *,
    config: Config = None,
    output: OutputOption = None,
    force: Force = False,
    warm: Annotated[
        str | None,
        typer.Option(
            metavar="WRITES[,READS]",
            help="For the table: warm throughput in units a second; charged, and never lowered.",
        ),
    ] = None,
    kms_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGION=ARN", help="For the table: a KMS key for each replica; for all or none."
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For the table: a tag of every replica."),
    ] = None,
) -> None:
    """Write a CloudFormation template."""
    make, comment = TEMPLATES[name]
    settings = Settings.load(config)
    if name is TemplateName.TABLE:
        extras = Extras.parse(settings, kms_key or (), tag or ())
        make = partial(
            table_template, warm=WarmThroughput.parse(warm) if warm else None, extras=extras
        )
    elif warm is not None or kms_key or tag:
        raise InvalidInput(
            f"--warm, --kms-key and --tag are for the template table, got {name.value}"
        )
    _write(as_yaml(make(settings), comment=comment), output, force=force)


@app.command("policy")
def write_policy(
    role: Annotated[
        str,
        typer.Argument(
            metavar="ROLE",
            help=f"Whose policy: {', '.join(Role)}; or {OF_THE_TABLE}, a replica's own.",
        ),
    ],
    *,
    config: Config = None,
    output: OutputOption = None,
    force: Force = False,
    account: Annotated[
        str, typer.Option("--account", help="AWS account id of the table, 12 digits.")
    ] = ACCOUNT_EXAMPLE,
    region: Annotated[
        str | None, typer.Option("--region", help="Region of the replica.", show_default="all")
    ] = None,
    principals: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="ARN", help="For the table: a role that uses its items."),
    ] = None,
    replica: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGION=ACCOUNT", help="For the table: the account of each other replica."
        ),
    ] = None,
) -> None:
    """Write the least-privilege IAM policy of one role as JSON, or a replica's resource policy."""
    settings = Settings.load(config)
    checked_account(account)
    if region is not None:
        checked_region(settings, "--region", region)
    if role == OF_THE_TABLE:
        made = table_policy(
            settings,
            region=settings.home if region is None else region,
            account=account,
            principals=principals or (),
            replicas=pairs("--replica", replica or ()),
        )
        _write(check_size(as_json(made)), output, force=force)
        return
    if principals or replica:
        raise InvalidInput(f"--for and --replica are for the policy {OF_THE_TABLE}, got {role}")
    _write(
        as_json(policy(settings, _role(role), account=account, region=region)), output, force=force
    )


def checked_account(account: str) -> str:
    """Return an AWS account id.

    Raises:
        InvalidInput: it is not an account id.
    """
    if not (len(account) == len(ACCOUNT_EXAMPLE) and account.isascii() and account.isdigit()):
        raise InvalidInput(f"--account must be 12 digits, got {account!r}")
    return account


def _write(text: str, output: Path | None, *, force: bool) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(output, text, force=force)
