import pytest
from support.documents import ITEM, KEY, placeholders

from ledger.local.engines.memory.expressions.conditions import condition
from ledger.local.engines.port import ApiError

# What AWS's DynamoDB Local 3.3.1 says of each.
# fmt: off
TRUE = [
    "zz <> yy", "NOT NOT s = :s", "size(:s) = :n", "size(s) = :n", "size(zz) <> :n",
    "size(:ss)=:one", "begins_with(b, :b)", "begins_with(s,:h)", "begins_with(:s,:h)",
    "begins_with(:s, s)", "begins_with(:h,:h)", "n <> :t", "t = :t", "nu = :nu", "zz <> n",
    "zz <> :n", "NOT zz = n", "n BETWEEN :one AND :ten", ":n BETWEEN :one AND :ten",
    "n BETWEEN :n AND :n", "n IN (:one,:n)", "t IN (:t)", "n IN (size(s))", "size(s) IN (n)",
    "attribute_exists(l[0])", "attribute_exists(m.y.z)", "attribute_type(s,:ty)",
    "attribute_type(:s,:ty)", "contains(s,:h)", "contains(l,:one)", "contains(:s,:h)",
    "contains(:s,s)", "contains(b,:b)", "contains(ns,:one)", "contains(s,:e)", "(s = :s)",
    "(s = :s) AND (n = :n)", "((s = :s) AND (n = :n))", "(s) = :s", "s = (:s)", "(size(s)) = :n",
    "s = :s AND n = :n OR t = :t", "s = :s and n = :n or t = :t", "s between :h AND :s",
    "n in (:n)", "s =:s", "s=:s", "n<=:n", "l[0]=:one", "l[ 0 ] = :one", "l [0] = :one",
    "m . x = :one", "m.x = :one", "m. x=:one", ":s = :s", "size(s) = size(s)",
    "n BETWEEN size(s) AND :n", "(s) = (:s)", "contains(:s,:s)", "s BETWEEN :h AND :s AND n = :n",
    "s IN ((:s))", "n BETWEEN (:one) AND (:ten)", "size((s)) = :n", "(size((s))) = :n",
    "attribute_exists((s))", "s = :s and(n = :n)", "n in(:n)", "n between:one and:ten",
    "s = :s AND NOT n = :one", "NOT NOT (s=:s)", "NOT(NOT(s=:s))", "(NOT (NOT (s = :s)))",
    "size (s) = :n", "begins_with( s , :h )", "#and = :s", "s\t=\n:s", "attribute_exists(m.#x)",
    "attribute_exists(m . #x)", "s = :1", "s = :_a", "n = :n OR n = :one AND s = :h",
]
FALSE = [
    "zz = yy", "NOT NOT NOT s = :s", "size(n) = :n", "size(zz) = :n", "size(:l) = :n",
    "begins_with(s,:b)", "begins_with(n,:h)", "n = :t", "l = :l", "n < :s", "n < s", "s < n",
    "zz < n", "n < zz", "zz = n", "s BETWEEN :one AND :ten", "n BETWEEN :one AND zz",
    "zz BETWEEN :one AND :ten", "n IN (:one,:one)", "zz IN (yy)", "zz IN (:n, yy)", "l IN (:l)",
    "n IN (:s,:t)", "attribute_exists(s.x)", "attribute_exists(l[9])", "attribute_type(zz,:ty)",
    "contains(ss,:h)", "contains(ss,:ss)", "contains(l,:l)", "contains(n,:n)", "contains(:n,:h)",
    "contains(m,:h)", "contains(s,:n)", "contains(:ss,s)", "contains(:t, s)", "contains(zz,:h)",
    "contains(s,zz)", "contains(nu,:nu)", "NOT (s = :s)", "(NOT s = :s)", "NOT s = :s AND n = :n",
    "not s = :s", "s<>:s", "l[2147483647]=:one", "m.x.y = :one", "m[0] = :one", "l.x=:one",
    "l[0][1]=:one", "l[0].x = :one", "s1 = :s", "s_ = :s", "size(s) <> size(:s)", "size(s) < :s",
    ":n < :h", ":n = :s", "contains(size(s), :n)", "attribute_type(size(s),:ty)", "not(s = :s)",
    "contains = :n", "begins_with = :s", "if_not_exists = :s", "m.a1 = :one", "l[0][0][0] = :one",
    "n > :s", "n = :one OR begins_with(n,:h)",
]
REFUSED = [
    "zz = zz", "s = s", "s <> s", "size(:n) = :n", "size(:t) = :n", "begins_with(s,:n)",
    "begins_with(s,s)", "begins_with(:n,:h)", "t < :t", "nu < :nu", "l < :l", "m < :m",
    "ss < :ss", "n BETWEEN :ten AND :one", "n BETWEEN :one AND :s", "n BETWEEN n AND n",
    "t BETWEEN :t AND :t", "n BETWEEN n AND :ten", "n IN (n)", "n IN (n,:n)", "n IN ()",
    "attribute_exists(s) = :t", "size(size(s)) = :n", "attribute_exists(:s)",
    "attribute_exists(size(s))", "attribute_type(s,:s)", "attribute_type(s,s)",
    "attribute_type(s,:n)", "contains(s,s)", "((s = :s))", "s = :s AND ((n = :n))",
    "NOT ((s = :s))", "((NOT (s = :s)))", "Attribute_Exists(s)", "s==:s", "s != :s", "s< >:s",
    "n< =:n", "s = 'hello'", "n = 5", "s", "s = ", "= :s", ":s", ":t", "attribute_exists(s",
    "attribute_exists s", "attribute_exists(s,n)", "attribute_exists()", "foo(s)", "size(s)",
    "NOT size(s)", "NOT s", "l[00] = :one", "l[-1] = :one", "l[99999999999999] = :one",
    "l[0.5]=:one", "l[:one]=:one", ".m = :one", "m. = :one", "m..x = :one", "name = :s",
    "Name = :s", "m.name = :s", "Status = :s", "_s = :s", "1s = :s", "s-1 = :s", "s$ = :s",
    "é = :s", "s#=:s", "2 = :s", "$s=:s", "m.x = m.x", "begins_with(size(s),:h)", "((s)) = :s",
    "(s = :s) = :t", "s = s = :s", "s AND n", "NOT (s)", "(s)", "s IN (:s AND :h)",
    "if_not_exists(s,:s) = :s", "list_append(l,:l) = :l", "s IN (:s", "s = :s)", "add = :n",
    "remove = :n", "set = :n", "delete = :n", "between = :s", "in = :s", "s = :é", "s = :",
    "s = : s", "m.1 = :one", "attribute_type(s, :s) OR s = :s",
]
# fmt: on


def holds(expression: str) -> bool:
    """Tell whether a condition is true of the item."""
    read = condition("ConditionExpression", expression, placeholders(expression), KEY)
    assert read is not None
    return read.holds(ITEM)


@pytest.mark.parametrize("expression", TRUE)
def test_true(expression: str) -> None:
    """These conditions are true of the item."""
    assert holds(expression)


@pytest.mark.parametrize("expression", FALSE)
def test_false(expression: str) -> None:
    """These conditions are false: not errors, and no missing attribute equals another one."""
    assert not holds(expression)


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    """These are wrong whatever the item, and refused before it is looked at."""
    with pytest.raises(ApiError) as caught:
        holds(expression)
    assert caught.value.kind == "ValidationException"


@pytest.mark.parametrize("path", ["a", "sk[0]", "m.x"])
def test_the_item_that_is_not_there(path: str) -> None:
    """An item that is not there has no attributes: a condition on it is no error."""
    if path == "sk[0]":
        path = "l[0]"
    for function, expected in (("attribute_exists", False), ("attribute_not_exists", True)):
        text = f"{function}({path})"
        read = condition("ConditionExpression", text, placeholders(text), KEY)
        assert read is not None
        assert read.holds(None) is expected


def test_a_filter_without_key_attributes() -> None:
    """A filter may name key attributes, and says so where that is not allowed, as in a Query."""
    read = condition("FilterExpression", "n = :n AND sk = :s", placeholders(":n :s"), KEY)
    assert read is not None
    assert read.holds({**ITEM, "sk": {"S": "hello"}})
    with pytest.raises(ApiError, match="non-primary key attributes: Primary key attribute: sk"):
        read.check_without_keys(KEY)


def test_parentheses_without_end_are_refused() -> None:
    """Whatever 4 KB of text hold is an answer, not an error of Python."""
    deep = "(NOT " * 800 + "s = :s" + ")" * 800
    for text in (deep[:4000], "(" * 4000, "NOT " * 900 + "s", "s IN (" * 600):
        with pytest.raises(ApiError):
            holds(text)
