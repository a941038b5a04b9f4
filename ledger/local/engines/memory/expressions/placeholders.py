"""The names and values of a request, put into the trees of its expressions.

A reserved word, in any case, must stand behind a placeholder. Source: Amazon DynamoDB Developer
Guide, "Reserved words in DynamoDB".

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ledger.local.engines import values
from ledger.local.engines.memory.expressions.syntax import (
    ComparisonTree,
    FunctionCall,
    Logic,
    Operand,
    Path,
    Steps,
    Tree,
    Value,
)
from ledger.local.engines.port import ApiError, TableKey, invalid

_WORDS = """
    ABORT ABSOLUTE ACTION ADD AFTER AGENT AGGREGATE ALL ALLOCATE ALTER ANALYZE AND ANY ARCHIVE
    ARE ARRAY AS ASC ASCII ASENSITIVE ASSERTION ASYMMETRIC AT ATOMIC ATTACH ATTRIBUTE AUTH
    AUTHORIZATION AUTHORIZE AUTO AVG BACK BACKUP BASE BATCH BEFORE BEGIN BETWEEN BIGINT BINARY
    BIT BLOB BLOCK BOOLEAN BOTH BREADTH BUCKET BULK BY BYTE CALL CALLED CALLING CAPACITY CASCADE
    CASCADED CASE CAST CATALOG CHAR CHARACTER CHECK CLASS CLOB CLOSE CLUSTER CLUSTERED
    CLUSTERING CLUSTERS COALESCE COLLATE COLLATION COLLECTION COLUMN COLUMNS COMBINE COMMENT
    COMMIT COMPACT COMPILE COMPRESS CONDITION CONFLICT CONNECT CONNECTION CONSISTENCY CONSISTENT
    CONSTRAINT CONSTRAINTS CONSTRUCTOR CONSUMED CONTINUE CONVERT COPY CORRESPONDING COUNT
    COUNTER CREATE CROSS CUBE CURRENT CURSOR CYCLE DATA DATABASE DATE DATETIME DAY DEALLOCATE
    DEC DECIMAL DECLARE DEFAULT DEFERRABLE DEFERRED DEFINE DEFINED DEFINITION DELETE DELIMITED
    DEPTH DEREF DESC DESCRIBE DESCRIPTOR DETACH DETERMINISTIC DIAGNOSTICS DIRECTORIES DISABLE
    DISCONNECT DISTINCT DISTRIBUTE DO DOMAIN DOUBLE DROP DUMP DURATION DYNAMIC EACH ELEMENT ELSE
    ELSEIF EMPTY ENABLE END EQUAL EQUALS ERROR ESCAPE ESCAPED EVAL EVALUATE EXCEEDED EXCEPT
    EXCEPTION EXCEPTIONS EXCLUSIVE EXEC EXECUTE EXISTS EXIT EXPLAIN EXPLODE EXPORT EXPRESSION
    EXTENDED EXTERNAL EXTRACT FAIL FALSE FAMILY FETCH FIELDS FILE FILTER FILTERING FINAL FINISH
    FIRST FIXED FLATTERN FLOAT FOR FORCE FOREIGN FORMAT FORWARD FOUND FREE FROM FULL FUNCTION
    FUNCTIONS GENERAL GENERATE GET GLOB GLOBAL GO GOTO GRANT GREATER GROUP GROUPING HANDLER HASH
    HAVE HAVING HEAP HIDDEN HOLD HOUR IDENTIFIED IDENTITY IF IGNORE IMMEDIATE IMPORT IN
    INCLUDING INCLUSIVE INCREMENT INCREMENTAL INDEX INDEXED INDEXES INDICATOR INFINITE INITIALLY
    INLINE INNER INNTER INOUT INPUT INSENSITIVE INSERT INSTEAD INT INTEGER INTERSECT INTERVAL
    INTO INVALIDATE IS ISOLATION ITEM ITEMS ITERATE JOIN KEY KEYS LAG LANGUAGE LARGE LAST
    LATERAL LEAD LEADING LEAVE LEFT LENGTH LESS LEVEL LIKE LIMIT LIMITED LINES LIST LOAD LOCAL
    LOCALTIME LOCALTIMESTAMP LOCATION LOCATOR LOCK LOCKS LOG LOGED LONG LOOP LOWER MAP MATCH
    MATERIALIZED MAX MAXLEN MEMBER MERGE METHOD METRICS MIN MINUS MINUTE MISSING MOD MODE
    MODIFIES MODIFY MODULE MONTH MULTI MULTISET NAME NAMES NATIONAL NATURAL NCHAR NCLOB NEW NEXT
    NO NONE NOT NULL NULLIF NUMBER NUMERIC OBJECT OF OFFLINE OFFSET OLD ON ONLINE ONLY OPAQUE
    OPEN OPERATOR OPTION OR ORDER ORDINALITY OTHER OTHERS OUT OUTER OUTPUT OVER OVERLAPS
    OVERRIDE OWNER PAD PARALLEL PARAMETER PARAMETERS PARTIAL PARTITION PARTITIONED PARTITIONS
    PATH PERCENT PERCENTILE PERMISSION PERMISSIONS PIPE PIPELINED PLAN POOL POSITION PRECISION
    PREPARE PRESERVE PRIMARY PRIOR PRIVATE PRIVILEGES PROCEDURE PROCESSED PROJECT PROJECTION
    PROPERTY PROVISIONING PUBLIC PUT QUERY QUIT QUORUM RAISE RANDOM RANGE RANK RAW READ READS
    REAL REBUILD RECORD RECURSIVE REDUCE REF REFERENCE REFERENCES REFERENCING REGEXP REGION
    REINDEX RELATIVE RELEASE REMAINDER RENAME REPEAT REPLACE REQUEST RESET RESIGNAL RESOURCE
    RESPONSE RESTORE RESTRICT RESULT RETURN RETURNING RETURNS REVERSE REVOKE RIGHT ROLE ROLES
    ROLLBACK ROLLUP ROUTINE ROW ROWS RULE RULES SAMPLE SATISFIES SAVE SAVEPOINT SCAN SCHEMA
    SCOPE SCROLL SEARCH SECOND SECTION SEGMENT SEGMENTS SELECT SELF SEMI SENSITIVE SEPARATE
    SEQUENCE SERIALIZABLE SESSION SET SETS SHARD SHARE SHARED SHORT SHOW SIGNAL SIMILAR SIZE
    SKEWED SMALLINT SNAPSHOT SOME SOURCE SPACE SPACES SPARSE SPECIFIC SPECIFICTYPE SPLIT SQL
    SQLCODE SQLERROR SQLEXCEPTION SQLSTATE SQLWARNING START STATE STATIC STATUS STORAGE STORE
    STORED STREAM STRING STRUCT STYLE SUB SUBMULTISET SUBPARTITION SUBSTRING SUBTYPE SUM SUPER
    SYMMETRIC SYNONYM SYSTEM TABLE TABLESAMPLE TEMP TEMPORARY TERMINATED TEXT THAN THEN
    THROUGHPUT TIME TIMESTAMP TIMEZONE TINYINT TO TOKEN TOTAL TOUCH TRAILING TRANSACTION
    TRANSFORM TRANSLATE TRANSLATION TREAT TRIGGER TRIM TRUE TRUNCATE TTL TUPLE TYPE UNDER UNDO
    UNION UNIQUE UNIT UNKNOWN UNLOGGED UNNEST UNPROCESSED UNSIGNED UNTIL UPDATE UPPER URL USAGE
    USE USER USERS USING UUID VACUUM VALUE VALUED VALUES VARCHAR VARIABLE VARIANCE VARINT
    VARYING VIEW VIEWS VIRTUAL VOID WAIT WHEN WHENEVER WHERE WHILE WINDOW WITH WITHIN WITHOUT
    WORK WRAPPED WRITE YEAR ZONE
"""
RESERVED = frozenset(_WORDS.split())


_KEYS = {"Names": re.compile(r"#[A-Za-z0-9_]+"), "Values": re.compile(r":[A-Za-z0-9_]+")}
_Tree = TypeVar("_Tree", bound=Tree)


@dataclass(slots=True)
class Placeholders:
    """The `#names` and `:values` of one request, and which of them its expressions used."""

    names: Mapping[str, str]
    values: Mapping[str, dict[str, Any]]
    used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Placeholders":
        """Take them from a request, checked.

        Raises:
            ApiError: ValidationException.
        """
        names, contents = _given(body, "Names"), _given(body, "Values")
        for key, name in names.items():
            if not name:
                raise invalid(
                    f"ExpressionAttributeNames contains invalid value: Empty attribute name for "
                    f"key {key}"
                )
        return cls(names, {key: _checked(key, content) for key, content in contents.items()})

    def check_all_used(self) -> None:
        """Refuse names and values that no expression used.

        Raises:
            ApiError: ValidationException.
        """
        for field_name, given in (("Names", self.names), ("Values", self.values)):
            unused = [key for key in given if key not in self.used]
            if unused:
                raise invalid(
                    f"Value provided in ExpressionAttribute{field_name} unused in expressions: "
                    f"keys: {{{', '.join(unused)}}}"
                )

    def bound(self, what: str, tree: _Tree) -> _Tree:
        """Return a tree with names and values in place of its placeholders.

        Raises:
            ApiError: ValidationException: one is not defined, or a name is a reserved word.
        """
        bound: Tree
        match tree:
            case Path():
                bound = Path(tuple(self._step(what, step) for step in tree.steps))
            case Value():
                bound = Value(tree.name, self._value(what, tree.name))
            case FunctionCall():
                bound = FunctionCall(tree.function, self._all(what, tree.operands))
            case ComparisonTree():
                bound = ComparisonTree(tree.operator, self._all(what, tree.operands))
            case Logic():
                parts = tuple(self.bound(what, part) for part in tree.parts)
                bound = Logic(tree.operator, parts)
        return bound  # type: ignore[return-value]  # each case keeps its type

    def _all(self, what: str, operands: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.bound(what, operand) for operand in operands)

    def _step(self, what: str, step: str | int) -> str | int:
        if isinstance(step, int):
            return step
        if not step.startswith("#"):
            if step.upper() in RESERVED:
                raise invalid(
                    f"Invalid {what}: Attribute name is a reserved keyword; reserved keyword: "
                    f"{step}"
                )
            return step
        if step not in self.names:
            raise invalid(
                f"Invalid {what}: An expression attribute name used in the document path is not "
                f"defined; attribute name: {step}"
            )
        self.used.add(step)
        return self.names[step]

    def _value(self, what: str, name: str) -> dict[str, Any]:
        if name not in self.values:
            raise invalid(
                f"Invalid {what}: An expression attribute value used in expression is not "
                f"defined; attribute value: {name}"
            )
        self.used.add(name)
        return self.values[name]


def _given(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    content = body.get(f"ExpressionAttribute{kind}")
    if content is None:
        return {}
    if not content:
        raise invalid(f"ExpressionAttribute{kind} must not be empty")
    for key in content:
        if not _KEYS[kind].fullmatch(key):
            raise invalid(
                f'ExpressionAttribute{kind} contains invalid key: Syntax error; key: "{key}"'
            )
    return dict(content)


def _checked(key: str, content: Any) -> dict[str, Any]:
    try:
        return values.value(content)
    except ApiError as error:
        raise invalid(
            f"ExpressionAttributeValues contains invalid value: {error.message} for key {key}"
        ) from None


def check_scalar_keys(key: TableKey, paths: Iterable[Path]) -> None:
    """Refuse paths below key attributes.

    Raises:
        ApiError: ValidationException.
    """
    for path in paths:
        if len(path.steps) > 1 and path.steps[0] in key.names:
            raise invalid(
                "Key attributes must be scalars; list random access '[]' and map lookup '.' are "
                f"not allowed: Key: {path.steps[0]}"
            )


def check_apart(what: str, paths: Iterable[Path]) -> None:
    """Refuse two paths of which one leads into the other, or that take one thing as list and map.

    Raises:
        ApiError: ValidationException.
    """
    tree: dict[str | int, Any] = {}
    for path in paths:
        level = tree
        for position, step in enumerate(path.steps):
            if level and isinstance(next(iter(level)), int) != isinstance(step, int):
                raise _not_apart(what, "conflict", path.steps)
            ends = position == len(path.steps) - 1
            if step in level and (ends or not level[step]):
                raise _not_apart(what, "overlap", path.steps)
            level = level.setdefault(step, {})


def _not_apart(what: str, how: str, steps: Steps) -> ApiError:
    shown = ", ".join(f"[{step}]" if isinstance(step, int) else step for step in steps)
    return invalid(
        f"Invalid {what}: Two document paths {how} with each other; must remove or rewrite one of "
        f"these paths; path: [{shown}]"
    )
