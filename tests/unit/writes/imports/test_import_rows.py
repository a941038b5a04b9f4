"""Lines become rows, good or bad, with the line on which an editor shows them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from support.importing import source_of

from ledger.core.entry import NOTE_BYTES_MAX
from ledger.core.errors import ImportRefused, InvalidInput
from ledger.writes.imports.file_format import ColumnChoice, Columns, Form, Format
from ledger.writes.imports.rows import BadRow, Row, Rows, read_rows

CSV = Form()
JSONL = Form(format=Format.JSONL)


def read(content: bytes | str, form: Form = CSV) -> Rows:
    """Begin to read a file of this content."""
    source = source_of(content)
    return read_rows(source.lines(source.hashed(), encoding=form.encoding), form)


def values(content: bytes | str, form: Form = CSV) -> list[tuple[int, str, Decimal]]:
    """Read a file in which every row is good."""
    rows = list(read(content, form))
    assert [row for row in rows if isinstance(row, BadRow)] == []
    return [(row.line, row.counter, row.change) for row in rows if isinstance(row, Row)]


def bad(content: bytes | str, form: Form = CSV) -> list[tuple[int, str]]:
    """Return line and rule of each bad row of a file."""
    return [(row.line, row.rule) for row in read(content, form) if isinstance(row, BadRow)]


A = (2, "a", Decimal("1.50"))


@pytest.mark.parametrize(
    "content",
    [
        b"counter,change\na,1.50\n",
        b"counter,change\na,1.50",
        b"counter,change\r\na,1.50\r\n",
        b"counter,change\ra,1.50\r",
        b"\xef\xbb\xbfcounter,change\na,1.50\n",
        b'"counter","change"\n"a","1.50"\n',
        b"change,other,counter\n1.50,x,a\n",
        b"counter,change\na, 1.50 \n\n\n",
    ],
)
def test_csv_as_programs_write_it(content: bytes) -> None:
    """Line ends of every kind, a byte order mark, quotes, order of columns: the same row."""
    assert values(content) == [A]


def test_lines_are_those_of_an_editor() -> None:
    """Rows after quoted line ends and blank lines bear the line on which they begin."""
    content = 'counter,change,note\na,1,"two\nlines"\n\nb,2,\nc,3,"three\r\n\r\nlines"\nd,4,x\n'
    assert [line for line, *_ in values(content)] == [2, 5, 6, 9]


def test_everything_a_row_can_say() -> None:
    """Counter, amount, note and date are taken exactly as the file has them."""
    content = 'counter,change,note,effective\n"a ""b"", c",-0.10,"x\ny",1993-01-31\n'
    (row,) = read(content)
    assert isinstance(row, Row)
    assert (row.counter, str(row.change)) == ('a "b", c', "-0.10")
    assert (row.note, row.effective) == ("x\ny", date(1993, 1, 31))
    assert row.raw == '"a ""b"", c",-0.10,"x\ny",1993-01-31\n'


def test_columns_by_options() -> None:
    """Columns are those named, and the counter id is made by the format."""
    form = Form(
        columns=ColumnChoice(counter="account", note="kind", effective="date"),
        counter_format="account-{}",
    )
    rows = read("account,date,change,kind\n7,1993-01-01,5,vklad\n", form)
    (row,) = rows
    assert isinstance(row, Row)
    assert (row.counter, row.note, row.effective) == ("account-7", "vklad", date(1993, 1, 1))
    assert rows.columns == Columns("account", "change", "kind", "date")


def named(content: str, form: Form = CSV) -> list[Mapping[str, str] | None]:
    """Return the metadata of a file in which every row is good."""
    rows = list(read(content, form))
    assert [row for row in rows if isinstance(row, BadRow)] == []
    return [row.metadata for row in rows if isinstance(row, Row)]


def test_columns_become_metadata() -> None:
    """Each column named is kept under its name; an empty field names nothing."""
    form = Form(columns=ColumnChoice(metadata=("order", "channel")))
    content = "order,counter,change,channel,metadata\n17,a,1,web,x\n,a,2,shop,x\n,a,3,,x\n"
    found = [{"order": "17", "channel": "web"}, {"channel": "shop"}, None]
    assert named(content, form) == found
    lines = (
        '{"counter": "a", "change": 1, "order": "17", "channel": "web"}\n'
        '{"counter": "a", "change": 1, "order": "", "channel": "shop", "metadata": 5}\n'
        '{"counter": "a", "change": 1, "channel": null}\n'
    )
    assert named(lines, replace(form, format=Format.JSONL)) == found


def test_a_column_of_all_metadata() -> None:
    """As an export has it: an object of texts, or the text of one; empty if there are none."""
    content = 'counter,change,metadata\na,1,"{""order"": ""17""}"\na,2,\na,3,{}\n'
    assert named(content) == [{"order": "17"}, None, None]
    lines = (
        '{"counter": "a", "change": 1, "metadata": {"order": "17"}}\n'
        '{"counter": "a", "change": 1, "metadata": null}\n{"counter": "a", "change": 1}\n'
    )
    assert named(lines, JSONL) == [{"order": "17"}, None, None]


@pytest.mark.parametrize(
    ("metadata", "rule"),
    [
        ("5", "metadata must be 1 to 20 texts by name, got 5"),
        ("[]", "metadata must be 1 to 20 texts by name, got []"),
        ('{"order": 17}', "metadata must be texts by name, got 'order': 17"),
        ('{"": "x"}', "a name of metadata must be visible characters, got ''"),
        ('{"a": "x", "a": "y"}', "the object has 'a' more than once"),
        (str({f"n{n}": "" for n in range(21)}).replace("'", '"'), "1 to 20 texts by name, got {"),
        (f'{{"a": "{"x" * 2_048}"}}', "at most 2,048 bytes of names and texts, got 2,049"),
        ('"order"', "metadata is not JSON: Expecting value at character 1"),
    ],
)
def test_metadata_that_breaks_a_rule(metadata: str, rule: str) -> None:
    """The bounds are those of every entry, named with the line."""
    lines = (
        f'{{"counter": "a", "change": 1}}\n{{"counter": "a", "change": 1, "metadata": {metadata}}}'
    )
    (found,) = bad(lines, JSONL)
    assert (found[0], rule in found[1]) == (2, True), found


def test_a_note_leaves_room_for_metadata() -> None:
    """Both are kept in one item, of which DynamoDB stores 400 KB."""
    form = Form(columns=ColumnChoice(metadata=["order"]))
    content = f"counter,change,note,order\na,1,{'x' * (NOTE_BYTES_MAX - 6)},"
    assert bad(f"{content}1\n", form) == []
    ((line, rule),) = bad(f"{content}17\n", form)
    assert (line, "and metadata have 407,553 bytes: up to 407,552" in rule) == (2, True)


def test_a_column_can_be_left_out() -> None:
    """An empty name means that a column which is there is not taken."""
    form = Form(columns=ColumnChoice(note="", metadata=[""]))
    (row,) = read("counter,change,note,metadata\na,1,secret,mine\n", form)
    assert isinstance(row, Row)
    assert (row.note, row.metadata) == (None, None)


def test_another_delimiter_and_encoding() -> None:
    """Nothing is sniffed: delimiter and encoding are those said."""
    form = Form(delimiter=";", encoding="utf-16")
    assert values("counter;change\nü;1\n".encode("utf-16"), form) == [(2, "ü", Decimal(1))]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("a,1,5", "the row has 3 fields, the header 4"),
        ("a,1,,,", "the row has 5 fields, the header 4"),
        ("a,,,", "amount must be a decimal number, got ''"),
        ('a,"1,5",,', "amount must be a decimal number, got '1,5'"),
        ("a,1_000,,", "amount must be a decimal number, got '1_000'"),
        ("a,NaN,,", "amount must be a finite number, got NaN"),
        ("a,-Infinity,,", "amount must be a finite number, got -Infinity"),
        (f"a,{'1' * 39},,", f"amount must have at most 38 digits, got 39 digits: {'1' * 39}"),
        ("a,1E126,,", "amount must be within 1E-130 to 9.99E+125, got 1E+126"),
        ("a,1E38,,", "at most 38 digits before the point and 38 after it, got 1E+38"),
        (f"a,{'9' * 301},,", "has 301 characters: up to 300 are read"),
        (",1,,", "counter must have 1 to 1,024 bytes, got ''"),
        ("~lease,1,,", "counter must not begin with '~', which is reserved, got '~lease'"),
        ("a\tb,1,,", "counter must not contain control characters, got 'a\\tb'"),
        (
            "cafe\u0301,1,,",
            "counter must be in Unicode's normal form C (NFC), got 'cafe\\u0301'",
        ),
        (f"{'é' * 513},1,,", "counter must have 1 to 1,024 bytes, got 1,026"),
        (f"a,1,{'é' * 203_777},", "has 407,554 bytes: a note has up to 407,552"),
        ("a,1,,31.01.1993", "effective '31.01.1993' is not a date such as 1993-01-31"),
        ("a,1,,1993-02-29", "effective '1993-02-29' is not a date such as 1993-01-31"),
        ("a,1,,19930131", "effective '19930131' is not a date such as 1993-01-31"),
        ('"a"b,1,,', "the row is not CSV: "),
    ],
)
def test_bad_rows_of_csv(line: str, rule: str) -> None:
    """Each broken rule is named with the value; the rows before and after are read."""
    content = f'counter,change,note,effective\na,1,"\n",\n{line}\nb,2,,\n'
    found = list(read(content))
    assert [type(row) for row in found] == [Row, BadRow, Row]
    assert [row.line for row in found] == [2, 4, 5]
    assert isinstance(found[1], BadRow)
    assert rule in found[1].rule
    assert found[1].raw == f"{line}\n"


def test_a_quote_that_is_never_closed_is_a_bad_row() -> None:
    """The rest of the file is not swallowed in silence: it is one bad row, where it begins."""
    assert bad('counter,change\na,1\n"b,2\nc,3\n') == [
        (3, "the row is not CSV: unexpected end of data")
    ]


def test_bytes_outside_the_encoding_are_a_bad_row_kept_byte_for_byte() -> None:
    """A row that is not UTF-8 is refused alone, and its bytes are there to be mended."""
    rows = list(read(b"counter,change,kind\na,1,x\nb,2,caf\xe9\n"))
    assert isinstance(rows[0], Row)
    assert isinstance(rows[1], BadRow)
    assert (rows[1].line, rows[1].rule) == (3, "character 8 of the row is not utf-8-sig")
    assert rows[1].raw.encode(errors="surrogateescape") == b"b,2,caf\xe9\n"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "the file is empty: it needs a header and rows"),
        ("\n\n", "the file is empty: it needs a header and rows"),
        ("a,1\n", "no column 'counter' for the counter; it has: 'a', '1'; name the column with"),
        ("counter,amount\n", "no column 'change' for the change; it has: 'counter', 'amount'"),
        ("counter,change,change\n", "the file has the column 'change' 2 times"),
        ('"counter,change\n', "line 1: no CSV header: unexpected end of data"),
    ],
)
def test_files_without_the_columns_are_refused(content: str, rule: str) -> None:
    """An empty file, and one without a column, are refused, naming the columns there are."""
    with pytest.raises(ImportRefused) as refused:
        read(content)
    assert rule in str(refused.value)


def test_a_named_column_has_to_be_there() -> None:
    """An optional column is needed once it is named: a slip of the pen would lose every note."""
    with pytest.raises(ImportRefused, match="no column 'memo' for the note"):
        read("counter,change\na,1\n", Form(columns=ColumnChoice(note="memo")))
    with pytest.raises(ImportRefused, match="no column 'order' for the metadata"):
        read("counter,change\na,1\n", Form(columns=ColumnChoice(metadata=["order"])))


def test_json_lines() -> None:
    """Numbers and texts are exact amounts; other fields and blank lines do not matter."""
    content = (
        '{"counter": "a", "change": 0.1, "more": [1.5, {"x": null}]}\n\n'
        '{"counter": 7, "change": "2.50", "note": null}\r\n'
        '{"counter": "b", "change": -12345678901234567890123456789012345678}'
    )
    assert values(content, JSONL) == [
        (1, "a", Decimal("0.1")),
        (3, "7", Decimal("2.50")),
        (4, "b", Decimal(-12345678901234567890123456789012345678)),
    ]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ('{"counter": "a", "change": 1', "the line is not JSON: Expecting ',' delimiter at"),
        ("a,1", "the line is not JSON: Expecting value at character 1"),
        ('["a", 1]', "the line is JSON, but not an object: '[\"a\", 1]'"),
        ('{"counter": "a"}', "the object has no 'change'; it has: 'counter'"),
        ('{"counter": "a", "change": NaN}', "NaN is not a finite number"),
        ('{"counter": "a", "change": -Infinity}', "-Infinity is not a finite number"),
        ('{"counter": "a", "change": true}', "amount must be an int or a Decimal, got True (bool)"),
        (
            '{"counter": "a", "change": null}',
            "amount must be an int or a Decimal, got None (NoneType)",
        ),
        ('{"counter": "a", "change": 1E38}', "at most 38 digits before the point and 38 after"),
        ('{"counter": "a", "change": 1e9999999999999999999}', "has an exponent out of range"),
        (f'{{"counter": "a", "change": {"1" * 5000}}}', "has 5,000 characters"),
        ('{"counter": "a", "change": 1, "change": 2}', "has 'change' more than once"),
        ('{"counter": true, "change": 1}', "counter must be a string, got True (bool)"),
        ('{"counter": 1.5, "change": 1}', "counter must be a string, got Decimal('1.5') (Decimal)"),
        ('{"counter": "\\ud800", "change": 1}', "must be encodable in UTF-8"),
        ('{"counter": "a", "change": 1, "note": 5}', "note '5' is a int, not text"),
        ('{"counter": "a", "change": 1, "note": "\\ud800"}', "cannot be written in UTF-8"),
        ('{"counter": "a", "change": 1, "effective": 1993}', "effective '1993' is not a date"),
        ("[" * 100_000, "the line is not a row: it is nested too deeply"),
    ],
)
def test_bad_rows_of_json(line: str, rule: str) -> None:
    """Each broken rule is named with its line; the rows before and after are read."""
    content = f'{{"counter": "a", "change": 1}}\n{line}\n{{"counter": "b", "change": 2}}\n'
    found = list(read(content, JSONL))
    assert [type(row) for row in found] == [Row, BadRow, Row]
    assert isinstance(found[1], BadRow)
    assert found[1].line == 2
    assert rule in found[1].rule


def test_rules_stay_short() -> None:
    """However long a value is, what is said of it fits a few lines of a terminal."""
    long = "x" * 100_000
    for content, form in (
        (f"counter,change\na,{long}\n{long},1\na,1,{long}\n", CSV),
        (f'{{"{long}": 1}}\n{{"counter": "a", "change": "{long}"}}\n"{long}"\n', JSONL),
    ):
        rules = [rule for _, rule in bad(content, form)]
        assert len(rules) == 3
        assert max(map(len, rules)) < 350


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Form(counter_format="account"), "exactly one {} stands for the value"),
        (lambda: Form(counter_format="{}{}"), "exactly one {} stands for the value"),
        (lambda: Form(delimiter=";;"), "delimiter ';;': one character"),
        (lambda: Form(delimiter='"'), "one character, neither a quote nor a line end"),
        (lambda: Form(encoding="klingon"), "encoding 'klingon' is unknown"),
        (lambda: Form(encoding="hex"), "encoding 'hex' is unknown"),
        (lambda: Form(columns=ColumnChoice(note="n" * 1025)), "a name has up to 1,024"),
        (lambda: Form(columns=ColumnChoice(metadata="order")), "must be a list of names"),
        (lambda: Form(columns=ColumnChoice(metadata=["a", "b", "a"])), "is named twice: 'a', 'b'"),
        (lambda: Form(columns=ColumnChoice(metadata=list(map(str, range(21))))), "1 to 20 texts"),
        (lambda: Form(columns=ColumnChoice(metadata=["a" * 1_024, "b" * 1_024, "c"])), "got 2,049"),
    ],
)
def test_forms_that_break_a_rule(make: Callable[[], Form], rule: str) -> None:
    """What is said of a file is checked before the file is opened."""
    with pytest.raises(InvalidInput) as refused:
        make()
    assert rule in str(refused.value)


def test_the_longest_note_is_good() -> None:
    """The limit of a note belongs to what is allowed."""
    assert bad(f"counter,change,note\na,1,{'x' * NOTE_BYTES_MAX}\n") == []


def test_a_file_without_lines_is_not_read_into_memory() -> None:
    """A line beyond every text file's is refused by number, not swallowed whole."""
    with pytest.raises(ImportRefused, match="line 2 has over 3,145,728 characters"):
        list(read(b"counter,change\n" + b"\0" * (1 << 22)))
