"""Conditions that DynamoDB takes, and those that it refuses as too long, too deep or too many."""

TOO_MANY = "The expression contains too many operators; operator count: 301"
REDUNDANT = "The expression has redundant parentheses;"


def joined(text: str, times: int) -> str:
    """Give this many conditions, joined by AND."""
    return " AND ".join([text] * times)


TAKEN = [
    "a = :v",
    "(a = :v)",
    "(a) = :v",
    "(a = :v) AND (a = :v OR (a = :v))",
    "NOT (a = :v)",
    "attribute_exists((a))",
    "a IN ((:v))",
    joined("a = :v", 150),
    joined("a BETWEEN :v AND :v", 150),
    joined("attribute_exists(a)", 150),
    "NOT " * 299 + "a = :v",
    "(a = :v AND " * 140 + "a = :v" + ")" * 140,
    f"a IN ({','.join([':v'] * 100)})",
    ".".join(["a"] * 32) + " = :v",
    "a" + "[0]" * 31 + " = :v",
    "a" * 4090 + " = :v",
]
"""Each is false, or true, of an item that is not there; `:v` is a string."""

REFUSED = [
    ("(" * 4096, 'Syntax error; token: "("'),
    ("a = :v AND (a = :v", 'Syntax error; token: "<EOF>", near: ":v"'),
    ("((a = :v))", REDUNDANT),
    ("((a)) = :v", REDUNDANT),
    ("NOT ((a = :v))", REDUNDANT),
    ("(" * 2000 + "a = :v" + ")" * 2000, "Syntax error"),
    ("(:v" * 500 + ")" * 500, "Syntax error"),
    (joined("a = :v", 151), TOO_MANY),
    (joined("a BETWEEN :v AND :v", 151), TOO_MANY),
    (joined("attribute_exists(a)", 151).lower(), TOO_MANY),
    ("NOT " * 300 + "a = :v", TOO_MANY),
    (f"a IN ({','.join([':v'] * 101)})", "too many operands; number of operands: 101"),
    (".".join(["a"] * 33) + " = :v", "too many nesting levels; nesting levels: 33"),
    ("a" + "[0]" * 33 + " = :v", "too many nesting levels; nesting levels: 34"),
    ("a" * 4092 + " = :v", "expression size: 4097"),
]
"""Each with what the refusal says."""
