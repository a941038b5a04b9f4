"""A table's warm throughput.

A new on-demand table serves 4,000 write units and 12,000 read units a second at first, then up to
twice its last peak within half an hour; what exceeds that is throttled. More can be asked for in
advance, for all replicas together; it is charged once, and can never be lowered.

Sources: Amazon DynamoDB Developer Guide, "DynamoDB on-demand capacity mode" (the first values) and
"Understanding DynamoDB warm throughput"; botocore's model of DynamoDB (`WarmThroughput` of
CreateTable, UpdateTable and DescribeTable); AWS::DynamoDB::GlobalTable WarmThroughput.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from typing import Self

from ledger.core.errors import InvalidInput

NEW_TABLE_WRITES = 4_000
NEW_TABLE_READS = 12_000
"""Units a second of a new on-demand table."""


@dataclass(frozen=True, slots=True)
class WarmThroughput:
    """Write and read units a second; None to leave one unchanged."""

    writes: int
    reads: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `WRITES` or `WRITES,READS`.

        Raises:
            InvalidInput: it has another form, or asks for less than every new table serves.
        """
        parts = text.split(",")
        if len(parts) not in {1, 2} or not all(
            part.strip().isascii() and part.strip().isdigit() for part in parts
        ):
            raise InvalidInput(f"--warm must be WRITES or WRITES,READS a second, got {text!r}")
        writes, *reads = map(int, parts)
        for units, least, what in zip(
            (writes, *reads), (NEW_TABLE_WRITES, NEW_TABLE_READS), ("write", "read"), strict=False
        ):
            if units < least:
                raise InvalidInput(
                    f"--warm must ask for at least {least:,} {what} units a second, which every new"
                    f" table serves, got {units:,}"
                )
        return cls(writes, *reads)

    @property
    def request(self) -> dict[str, int]:
        """The value of `WarmThroughput` in requests and templates."""
        reads = {} if self.reads is None else {"ReadUnitsPerSecond": self.reads}
        return {**reads, "WriteUnitsPerSecond": self.writes}

    def is_met_by(self, shown: "WarmThroughput | None") -> bool:
        """Return whether a table that shows this serves as much."""
        if shown is None or shown.writes < self.writes:
            return False
        return self.reads is None or (shown.reads is not None and shown.reads >= self.reads)

    def __str__(self) -> str:
        reads = "" if self.reads is None else f", {self.reads:,} reads"
        return f"{self.writes:,} writes{reads}"
