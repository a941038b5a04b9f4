"""`ledger init`: regions.yaml and the files of deploy/ for the user's regions."""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ledger.administration.templates import ACCOUNT_EXAMPLE, Role, as_json, as_yaml, policy
from ledger.commands.deploy import TEMPLATES, checked_account
from ledger.commands.outputs import Force, check_output
from ledger.core.errors import InvalidInput, LedgerError, SettingsError
from ledger.runtime.command_line import AsJson, new_app
from ledger.runtime.files import keep_access
from ledger.runtime.output import print_json, say
from ledger.settings import Settings

app = new_app()

_LINK = re.compile(r"\[([^\[\]]*)\]\((?![a-z]+:)([^()#\s]+)(#[^()\s]*)?\)")
SETTINGS = "regions.yaml"
SAMPLE_REGIONS = "regions:\n  us-east-1:\n  eu-west-1:\n  ap-southeast-1:\n"
SAMPLE_TABLE = "\ntable: ledger\n"
COPIED = ("container", "kubernetes", "systemd", "prometheus", "grafana", "compose", "runbooks")
"""Folders of deploy/ that are the same for every table; CloudFormation and IAM are generated."""
COPIED_ALONE = {
    "deploy/README.md": "deploy/README.md",
    "deploy/permissions.md": "deploy/permissions.md",
    "deploy/constraints.txt": "deploy/constraints.txt",
    ".github/SECURITY.md": "deploy/SECURITY.md",
}
"""Further files, and where they are written."""


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

    Nothing is sent to AWS. If any of the files exists nothing is written, unless with --force.
    """
    if not folder.is_dir():
        what = "is a file, but must be a folder" if folder.is_file() else "is not a folder"
        raise InvalidInput(f"--folder {folder} {what}")
    if repeated := {region for region in regions if regions.count(region) > 1}:
        raise InvalidInput(f"given twice: {', '.join(sorted(repeated))}")
    if len(regions) == 1:
        raise InvalidInput(
            f"one region only, {regions[0]}: nothing replicates; name two or more, with spaces"
            " between"
        )
    try:
        settings = Settings(table=table, home=regions[0], regions={name: {} for name in regions})
    except SettingsError as error:
        raise InvalidInput(str(error)) from None
    made = {
        SETTINGS: _settings_text(settings),
        **_made(settings, checked_account(account)),
    }
    made |= dict(_copied(made))
    for name in made:
        _check(folder / name, within=folder, force=force)
    _write_all(folder, made)
    if as_json:
        print_json([{"file": name} for name in made])
        return
    say(
        f"{SETTINGS} and {len(made) - 1} files of deploy/ were written: deploy/README.md comes next"
    )


def _check(path: Path, *, within: Path, force: bool) -> None:
    """Check that a file may be written, and that no folder on its path is a file."""
    for parent in reversed(path.relative_to(within).parents):
        if (within / parent).exists() and not (within / parent).is_dir():
            raise LedgerError(
                f"{within / parent} is a file, but must be a folder: move it away; nothing was"
                " written"
            )
    if path.parent.is_dir():
        check_output(path, force=force)


def _write_all(folder: Path, made: Mapping[str, str]) -> None:
    """Write all files under temporary names, and move them once all are on the disk."""
    name, is_begun = "", False
    try:
        with TemporaryDirectory(prefix=".ledger-init-", dir=folder) as aside:
            for name, text in made.items():
                path = Path(aside, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            for name in made:
                path = (folder / name).resolve()
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.exists():
                    keep_access(path, Path(aside, name))
                Path(aside, name).replace(path)
                is_begun = True
    except OSError as error:
        left = "run it again with --force" if is_begun else "nothing was written"
        raise LedgerError(
            f"{folder / name} cannot be written: {error.strerror or error}; {left}"
        ) from None


def _settings_text(settings: Settings) -> str:
    """Return the sample with these regions and this table; it explains every value."""
    sample = packaged().joinpath(SETTINGS).read_text(encoding="utf-8")
    if SAMPLE_REGIONS not in sample or SAMPLE_TABLE not in sample:
        raise LedgerError("the package's sample of regions.yaml does not belong to this release")
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


def _copied(made: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the files that are the same for every table; links in pages fit their new places."""
    root = packaged()
    sources = {source: root.joinpath(source) for source in COPIED_ALONE}
    for folder in COPIED:
        for one in sorted(root.joinpath("deploy", folder).iterdir(), key=lambda each: each.name):
            if one.is_file():
                sources[f"deploy/{folder}/{one.name}"] = one
    places = {name: name for name in (*made, *sources)} | COPIED_ALONE
    for source, file in sources.items():
        text = file.read_text(encoding="utf-8")
        yield places[source], relinked(text, source, places) if source.endswith(".md") else text


def relinked(text: str, source: str, places: Mapping[str, str]) -> str:
    """Return a page with relative links that fit the place where it is written.

    `places` has where each file of the repository is written. A link to any other file becomes its
    text and the file's name.
    """
    folder = dirname(places[source])

    def link(found: re.Match[str]) -> str:
        words, path, heading = found.groups("")
        target = normpath(join(dirname(source), path))
        place = places.get(target, target)
        if target in places or any(other.startswith(f"{target}/") for other in places):
            return f"[{words}]({relpath(place, folder)}{heading})"
        return f"{words} (`{target}` of the repository)"

    return _LINK.sub(link, text)


def packaged() -> Traversable:
    """Return where the files are: in the package, or in the repository that it runs from.

    Raises:
        LedgerError: they are in neither.
    """
    package = files("ledger")
    inside = package.joinpath("files")
    if inside.joinpath(SETTINGS).is_file():
        return inside
    repository = Path(str(package)).parent
    if (repository / SETTINGS).is_file() and (repository / "deploy").is_dir():
        return repository
    raise LedgerError(
        "the files of deploy/ are neither in the package nor beside it: reinstall the package"
    )
