"""What templates of our functions share: parameters, log, queues, the function and its role.

Pure: no clock, no randomness, no I/O.
"""

from typing import Any

from ledger.administration.templates import template_text
from ledger.administration.templates.permissions import POLICY_VERSION, policy_in_template
from ledger.administration.templates.roles import Role
from ledger.administration.templates.template_text import Intrinsic, attribute, ref, sub
from ledger.settings import Settings

MESSAGE_SECONDS = 14 * 86_400
"""How long a message stays readable: the maximum of SQS."""
LOG_DAYS_CHOICES = (1, 7, 14, 30, 90, 180, 365)
MEMORY_MEGABYTES_CHOICES = (256, 512, 1024, 2048)

Statement = dict[str, Any]


def parameters(*, memory_megabytes: int) -> dict[str, Any]:
    """Return the parameters of every function's template."""
    return {
        "ImageUri": {
            "Type": "String",
            "Description": "The image in ECR in this region, by digest or by a tag never moved",
            "AllowedPattern": r"[0-9]{12}\.dkr\.ecr\..+(@sha256:[0-9a-f]{64}|:.+)",
        },
        "Architecture": {
            "Type": "String",
            "Description": "The architecture for which the image was built",
            "AllowedValues": ["x86_64", "arm64"],
            "Default": "x86_64",
        },
        "MemoryMegabytes": {
            "Type": "Number",
            "Description": "Memory of the function; its share of a processor grows with it",
            "AllowedValues": list(MEMORY_MEGABYTES_CHOICES),
            "Default": memory_megabytes,
        },
        "LogDays": {
            "Type": "Number",
            "Description": "How many days the log is kept",
            "AllowedValues": list(LOG_DAYS_CHOICES),
            "Default": 30,
        },
        **alarm_topic(),
    }


def alarm_topic() -> dict[str, Any]:
    """Return the parameter of every template with alarms."""
    return {
        "AlarmTopicArn": {
            "Type": "String",
            "Description": "The SNS topic that receives alarms; empty for none",
            "Default": "",
        }
    }


def is_given(parameter: str) -> Intrinsic:
    """Return the condition that a parameter is not empty."""
    return template_text.function("!Not", template_text.function("!Equals", ref(parameter), ""))


def log_group(part: str) -> dict[str, Any]:
    """Return the log of a part of the ledger."""
    return {
        "Type": "AWS::Logs::LogGroup",
        "DeletionPolicy": "Delete",
        "UpdateReplacePolicy": "Delete",
        "Properties": {
            "LogGroupName": sub(f"/ledger/{part}/${{AWS::StackName}}"),
            "RetentionInDays": ref("LogDays"),
        },
    }


def queue(*, on_deletion: str = "Delete") -> dict[str, Any]:
    """Return a queue for failures."""
    return {
        "Type": "AWS::SQS::Queue",
        "DeletionPolicy": on_deletion,
        "UpdateReplacePolicy": on_deletion,
        "Properties": {
            "MessageRetentionPeriod": MESSAGE_SECONDS,
            "SqsManagedSseEnabled": True,
        },
    }


def function_role(
    settings: Settings, *roles: Role, more: tuple[Statement, ...] = ()
) -> dict[str, Any]:
    """Return the role of `Function`: policies of roles on the table, its log, and more."""
    log = allow(
        "WriteLog", ("logs:CreateLogStream", "logs:PutLogEvents"), attribute("LogGroup.Arn")
    )
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": trust("lambda.amazonaws.com"),
            "Policies": [
                *(
                    {"PolicyName": role.value, "PolicyDocument": policy_in_template(settings, role)}
                    for role in roles
                ),
                {
                    "PolicyName": "own",
                    "PolicyDocument": {"Version": POLICY_VERSION, "Statement": [log, *more]},
                },
            ],
        },
    }


def function(description: str, *, timeout_seconds: int, **more: object) -> dict[str, Any]:
    """Return `Function`, which runs the image; `more` are further properties."""
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Description": description,
            "PackageType": "Image",
            "Code": {"ImageUri": ref("ImageUri")},
            **more,
            "Architectures": [ref("Architecture")],
            "MemorySize": ref("MemoryMegabytes"),
            "Timeout": timeout_seconds,
            "Role": attribute("FunctionRole.Arn"),
            "LoggingConfig": {"LogGroup": ref("LogGroup")},
        },
    }


def allow(name: str, actions: tuple[str, ...], resource: Intrinsic | str) -> Statement:
    """Return a statement of a policy."""
    return {"Sid": name, "Effect": "Allow", "Action": list(actions), "Resource": resource}


def trust(service: str, condition: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the policy by which a service takes on a role."""
    statement: Statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    if condition:
        statement["Condition"] = condition
    return {"Version": POLICY_VERSION, "Statement": [statement]}
