"""`ledger init`: regions.yaml and the files of deploy/ for somebody's regions."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from ledger.administration.templates import ACCOUNT_EXAMPLE, Role, as_json, as_yaml, policy
from ledger.commands.deploy import TEMPLATES, checked_account
from ledger.commands.outputs import Force, check_output
from ledger.core.errors import InvalidInput, LedgerError, SettingsError
from ledger.runtime.command_line import AsJson, new_app
from ledger.runtime.printing import print_json, say
from ledger.settings import Settings

app = new_app()

SETTINGS = "regions.yaml"
SAMPLE_REGIONS = "regions:\n  us-east-1:\n  eu-west-1:\n  ap-southeast-1:\n"
SAMPLE_TABLE = "\ntable: ledger\n"
COPIED = ("kubernetes", "systemd", "prometheus", "grafana", "compose", "runbooks")
"""Folders of deploy/ that are the same for every table; CloudFormation and IAM are made."""


@app.command("init")
def init(
    regions: Annotated[
        list[str], typer.Argument(metavar="REGION...", help="The home region, then the others.")
    ],
    *,
    folder: Annotated[Path, typer.Option(help="Folder to write in.")] = Path(),
    table: Annotated[str, typer.Option(help="Table name.")] = "ledger",
    account: Annotated[
        str, typer.Option(help="AWS account id for the IAM policies, 12 digits.")
    ] = ACCOUNT_EXAMPLE,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write regions.yaml and deploy/ for a new table: templates, policies, alerts, runbooks.

    Nothing is sent to AWS. If a file is there already nothing is written, unless with --force.
    """
    if not folder.is_dir():
        raise InvalidInput(f"--folder {folder} is not a folder")
    if repeated := {region for region in regions if regions.count(region) > 1}:
        raise InvalidInput(f"named twice: {', '.join(sorted(repeated))}")
    if len(regions) == 1:
        raise InvalidInput(f"one region only, {regions[0]}: nothing replicates; name two or more")
    try:
        settings = Settings(table=table, home=regions[0], regions={name: {} for name in regions})
    except SettingsError as error:
        raise InvalidInput(str(error)) from None
    made = {
        SETTINGS: _settings_text(settings),
        **_made(settings, checked_account(account)),
        **dict(_copied()),
    }
    for name in made:
        path = folder / name
        if path.parent.is_dir():
            check_output(path, force=force)
    for name, text in made.items():
        _write(folder / name, text)
    if as_json:
        print_json([{"file": name} for name in made])
        return
    say(
        f"{SETTINGS} and {len(made) - 1} files of deploy/ were written: deploy/README.md comes next"
    )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be written: {error.strerror or error}; run it again with --force"
        ) from None


def _settings_text(settings: Settings) -> str:
    """Return the sample with these regions and this table; it explains every value."""
    sample = packaged().joinpath(SETTINGS).read_text(encoding="utf-8")
    if SAMPLE_REGIONS not in sample or SAMPLE_TABLE not in sample:
        raise LedgerError("the package's sample of regions.yaml is not the one of this release")
    named = "".join(f"  {region}:\n" for region in settings.regions)
    text = sample.replace(SAMPLE_REGIONS, f"regions:\n{named}", 1)
    return text.replace(SAMPLE_TABLE, f"\ntable: {settings.table}\n", 1)


def _made(settings: Settings, account: str) -> Mapping[str, str]:
    made = {}
    for name, (make, comment) in TEMPLATES.items():
        made[f"deploy/cloudformation/{name}.yaml"] = as_yaml(make(settings), comment=comment)
    for role in Role:
        made[f"deploy/iam/{role}.json"] = as_json(policy(settings, role, account=account))
    return made


def _copied() -> Iterator[tuple[str, str]]:
    deploy = packaged().joinpath("deploy")
    yield "deploy/README.md", deploy.joinpath("README.md").read_text(encoding="utf-8")
    for name in COPIED:
        for one in sorted(deploy.joinpath(name).iterdir(), key=lambda each: each.name):
            if one.is_file() and not one.name.endswith("_test.yaml"):
                yield f"deploy/{name}/{one.name}", one.read_text(encoding="utf-8")


def packaged() -> Traversable:
    """Return where the files are: in the package, or in the repository that it runs from.

    Raises:
        LedgerError: in neither.
    """
    package = files("ledger")
    inside = package.joinpath("files")
    if inside.joinpath(SETTINGS).is_file():
        return inside
    repository = Path(str(package)).parent
    if (repository / SETTINGS).is_file() and (repository / "deploy").is_dir():
        return repository
    raise LedgerError(
        "the files of deploy/ are neither in the package nor beside it: install it anew"
    )
