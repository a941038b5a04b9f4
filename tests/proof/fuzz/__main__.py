"""`python -m proof.fuzz`: drawn command lines for some time; ends with 1 if any misbehaved.

::

    python -m proof.fuzz --seconds 600 --seed 7     for ten minutes, on a local global table
    python -m proof.fuzz --replay 4711 --seed 7     one case again
"""

import time
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ledger.runtime.command_line import FAILED, new_app, run
from ledger.runtime.output import say
from proof.fuzz.judging import problems, shown
from proof.fuzz.running import commands, files_of, fill_table, make_files, run_case, table_for
from proof.fuzz.words import drawn

REFILL_CASES = 30
"""After so many cases the table is made again, if one deleted it, and the files too."""
CONTENT = (
    ("local", "heal"),
    ("local", "fault", "none"),
    ("table", "create", "--set", "index=*", "--set", "periods=*=hours:72,days:62"),
    ("record", "a", "98765432109876.54", "--note", "paid\x1b[2K\u202e001"),
    ("record", "shop", "-1"),
)

app = new_app()


@app.command()
def fuzz(
    *,
    seconds: Annotated[float, typer.Option(min=0, help="How long.")] = 60.0,
    cases: Annotated[int | None, typer.Option(min=1, help="At most so many cases.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 7,
    replay: Annotated[int | None, typer.Option(help="Run the case of this number alone.")] = None,
) -> None:
    """Run drawn command lines, and show each that misbehaved."""
    found, done, began = 0, 0, time.monotonic()
    known = commands()
    with TemporaryDirectory(prefix="ledger-fuzz-") as place:
        folder = Path(place) / "folder"
        folder.mkdir()
        with table_for(folder):
            for number in count(1) if replay is None else (replay,):
                if time.monotonic() - began > seconds or (cases and done >= cases):
                    break
                if done % REFILL_CASES == 0:
                    make_files(folder)
                    fill_table(folder, CONTENT)
                    before = files_of(folder)
                case = drawn(number, known, seed)
                ended = run_case(case, folder)
                after = files_of(folder)
                for problem in problems(case, ended, before, after):
                    found += 1
                    for line in shown(case, ended, problem).splitlines():
                        say(line)
                before, done = after, done + 1
    say(f"{done:,} cases of seed {seed} in {time.monotonic() - began:.0f} s: {found:,} findings")
    if found:
        raise typer.Exit(FAILED)


if __name__ == "__main__":
    run(app)
