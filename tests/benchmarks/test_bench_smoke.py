"""The benchmark runs, and its figures that are no rates are what the design says."""

import json
from pathlib import Path

import typer
from benchmarks import bench_basics
from typer.testing import CliRunner


def test_the_benchmark_in_small(tmp_path: Path) -> None:
    """Every figure is there; a change costs little over 2 units, merged as usual over 3."""
    app = typer.Typer()
    app.command()(bench_basics.main)
    path = tmp_path / "figures.json"
    options = ["--seconds", "0.1", "--entries", "200", "--counters", "1", "--rounds", "1"]
    options += ["--json", str(path)]
    result = CliRunner().invoke(app, options, catch_exceptions=False, env={"COLUMNS": "160"})
    assert result.exit_code == 0
    figures = json.loads(path.read_text())["figures"]
    assert len(figures) == 6
    assert all(one["ours"] > 0 and one["baseline"] > 0 for one in figures)
    for one in figures:
        assert one["name"] in result.stdout
    units = {one["unit"]: one for one in figures}
    assert 2.0 < units["write units"]["ours"] < 2.4
    assert units["write units"]["baseline"] > 3.0
    assert units["read units"]["ours"] < units["read units"]["baseline"] / 2
