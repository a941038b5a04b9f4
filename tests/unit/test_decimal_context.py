"""The lint rule of decimals: `.ci/decimal_context.py`, as mypy runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFUSED = r"""
a + 1
1 - a
a * a
a / 3
a // 3
a % 3
a ** 2
-a
+a
abs(a)
round(a, 2)
sum([a, a])
sum(one for one in (a, a))
a.quantize(a)
a.scaleb(2)
a.normalize()
a.to_integral_value()
a.sqrt()
a < 1.5
1.5 >= a
Decimal(text)
str(a)
repr(a)
format(a, ".2f")
f"{a:,}"
f"{either:.2f}"
either + 1
""".strip().splitlines()
TAKEN = r"""
EXACT.add(a, 1)
a.quantize(a, None, EXACT)
a.scaleb(2, EXACT)
a.normalize(context=EXACT)
a.copy_negate()
a.copy_sign(a)
a.adjusted() + 1
int(a) + 1
a < 1
a == 1.5
max(a, a)
sum([1, 2])
Decimal(7)
Decimal("1.5")
Decimal((0, (1,), 5))
Decimal(text, EXACT)
format(a, "f")
f"{a} {a:E} {a!r:.80} {text:.9} {1.5:.2f}"
str(text)
""".strip().splitlines()
HEAD = """from decimal import Context, Decimal

EXACT = Context()
a = Decimal(1)
text = input()
either: int | Decimal = Decimal(1) if text else 1


"""


def refused_lines(lines: list[str], folder: Path, package: str) -> list[str]:
    """Return the lines that mypy with the rule refuses in a module of a package."""
    module = folder / package / "module.py"
    module.parent.mkdir(parents=True)
    module.write_text(HEAD + "".join(f"print({line})\n" for line in lines), encoding="utf-8")
    config = folder / "mypy.ini"
    plugin = ROOT / ".ci" / "decimal_context.py"
    config.write_text(f"[mypy]\nplugins = {plugin}\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", f"--config-file={config}", f"{package}/module.py"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.findall(r"module\.py:(\d+): error:", ran.stdout)
    return [lines[int(number) - 1 - HEAD.count("\n")] for number in dict.fromkeys(found)]


@pytest.mark.slow
@pytest.mark.tools("mypy")
@pytest.mark.parametrize("package", ["ledger", "compactor"])
def test_what_calculates_without_a_context_is_refused(package: str, tmp_path: Path) -> None:
    """And only that."""
    assert refused_lines([*REFUSED, *TAKEN], tmp_path, package) == REFUSED


@pytest.mark.slow
@pytest.mark.tools("mypy")
@pytest.mark.parametrize("package", ["tests", "tests/proof"])
def test_tests_and_the_laboratory_calculate_as_they_like(package: str, tmp_path: Path) -> None:
    """They run in processes of their own."""
    assert refused_lines(REFUSED, tmp_path, package) == []
