"""Items and expressions drawn at random: most of them sound, some wrong in each way there is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

USUAL: dict[str, Any] = {
    "a": {"N": "5"},
    "b": {"L": [{"N": "1"}, {"S": "a"}, {"L": [{"N": "2"}]}, {"M": {"x": {"N": "3"}}}]},
    "c": {"M": {"x": {"N": "1"}, "y": {"M": {"x": {"SS": ["a", "b"]}}}}},
    "d": {"SS": ["a", "b"]},
    "e": {"NS": ["1", "2", "10"]},
    "f": {"S": "ab"},
}
NAMES = [*USUAL, "g", "h"]
PATHS = {
    "any": ["a", "b", "c", "d", "e", "f", "g", "h", "b[0]", "b[1]", "b[2][0]", "b[3].x", "c.x"],
    "N": ["a", "b[0]", "b[2][0]", "b[3].x", "c.x"],
    "L": ["b", "b[2]"],
    "set": ["d", "e", "c.y.x"],
    "new": ["g", "h", "b[4]", "b[5]", "b[7]", "b[2][1]", "b[3].y", "c.z", "c.y.y", "c.y.z"],
}
MEMBERS = ["x", "y"]
COMPARATORS = ["=", "<>", "<", "<=", ">", ">="]
KINDS = ["S", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M", "X"]

SCALARS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *({"S": text} for text in ("", "a", "ab", "b", "é", "S", "N")),
        *({"N": text} for text in ("0", "1", "2", "-1", "1.5", "10", "99999999999999999999")),
        *({"B": text} for text in ("", "YQ==", "YWI=", "Yg==")),
        *({"BOOL": True}, {"BOOL": False}, {"NULL": True}),
    ]
)
SETS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *({"SS": texts} for texts in (["a"], ["a", "b"], ["b", "ab"], [""])),
        *({"NS": texts} for texts in (["1"], ["1", "2"], ["0", "1.5", "10"])),
        *({"BS": texts} for texts in (["YQ=="], ["YQ==", "Yg=="])),
    ]
)
VALUES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.one_of(SCALARS, SCALARS, SETS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: {"L": parts}),
        st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=2).map(lambda part: {"M": part}),
    ),
    max_leaves=6,
)
WRONG_VALUES = st.sampled_from(
    [
        *({}, {"S": "a", "N": "1"}, {"N": ""}, {"N": "abc"}, {"N": "1" * 39}, {"N": "1E126"}),
        *({"SS": []}, {"NS": ["1", "1.0"]}, {"SS": ["a", "a"]}, {"NULL": False}, {"L": [{}]}),
        *({"M": {"": {"S": "a"}}}, {"M": {"x": {"SS": []}}}, {"N": " 1"}, {"NS": ["x"]}),
    ]
)

NUMBERS = SCALARS.filter(lambda value: "N" in value)
TEXTS = SCALARS.filter(lambda value: not {"S", "B"}.isdisjoint(value))
LISTS = st.lists(SCALARS, max_size=2).map(lambda parts: {"L": parts})
WRONG_CONDITIONS = ["size(a)", "a", "a = = b", "(a", "a = b)", "foo(a)", "((a = b))"]


def often(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw the usual nine times of ten."""
    return st.integers(0, 9).flatmap(lambda number: rare if number == 9 else usual)


def items() -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of an item beside its key: usual ones, of which some are others or missing."""
    changes = st.dictionaries(st.sampled_from(NAMES), st.none() | VALUES, max_size=3)
    return changes.map(
        lambda changed: {
            name: value for name, value in {**USUAL, **changed}.items() if value is not None
        }
    )


@dataclass(slots=True)
class Scope:
    """Draws the parts of the expressions of one request, and collects its placeholders."""

    draw: st.DrawFn
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)

    def chance(self, one_in: int) -> bool:
        """Return whether something happens that happens once in so many times."""
        return self.draw(st.integers(1, one_in)) == one_in

    def one_of(self, options: Sequence[str]) -> str:
        """Draw one of several texts."""
        return self.draw(st.sampled_from(options))

    def name(self, options: Sequence[str]) -> str:
        """Draw a name, sometimes behind a placeholder, rarely a wrong one."""
        if self.chance(60):
            return self.one_of(["name", "Status", "1a", "_a", "#undefined", "a-b", "and", "set"])
        name = self.one_of(options)
        if not self.chance(4):
            return name
        placeholder = f"#n{len(self.names)}"
        self.names[placeholder] = name
        return placeholder

    def path(self, kind: str = "any") -> str:
        """Draw a document path, usually one that leads to a value of this kind."""
        if not self.chance(4):
            first, dot, rest = self.one_of(PATHS[kind]).partition(".")
            return self._renamed(first) + dot + rest
        text = self.name(NAMES if not self.chance(10) else ["pk", "sk"])
        for _ in range(self.draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
            if self.chance(2):
                text += f"[{self.draw(st.integers(0, 4))}]"
            else:
                text += f".{self.name(MEMBERS)}"
        return text

    def _renamed(self, step: str) -> str:
        name, bracket, rest = step.partition("[")
        return self.name([name]) + bracket + rest

    def value(self, values: st.SearchStrategy[Any] = VALUES) -> str:
        """Draw a placeholder of a value, old or new, rarely a wrong one."""
        if self.chance(300):
            return ":undefined"
        if self.values and self.chance(5):
            return self.one_of(sorted(self.values))
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = self.draw(WRONG_VALUES if self.chance(300) else values)
        return placeholder

    def operand(self) -> str:
        """Draw what may be compared."""
        match self.draw(st.integers(0, 11)):
            case 0 | 1:
                return f"size({self.path() if self.chance(2) else self.value()})"
            case 2 | 3 | 4 | 5:
                return self.value()
            case 6:
                return f"({self.path()})"
            case _:
                return self.path()

    def condition(self, depth: int = 2) -> str:
        """Draw a condition or filter."""
        if depth == 0 or self.chance(2):
            return self._simple_condition()
        match self.draw(st.integers(0, 4)):
            case 0:
                return f"NOT {self.condition(depth - 1)}"
            case 1:
                return f"({self.condition(depth - 1)})"
            case 2:
                return f"({self.condition(depth - 1)}) {self.one_of(['AND', 'or'])} " + (
                    self.condition(depth - 1)
                )
            case _:
                return f" {self.one_of(['AND', 'OR', 'and'])} ".join(
                    self.condition(depth - 1) for _ in range(self.draw(st.integers(2, 3)))
                )

    def _simple_condition(self) -> str:
        kinds: list[Callable[[], str]] = [
            *(self._exists, self._of_type, self._begins, self._between, self._in, self._compares),
            *(self._compares, lambda: f"contains({self.operand()}, {self.operand()})"),
        ]
        if self.chance(40):
            return self.one_of(WRONG_CONDITIONS)
        return self.draw(st.sampled_from(kinds))()

    def _exists(self) -> str:
        function = self.one_of(["attribute_exists", "attribute_not_exists"])
        return f"{function}({self.path() if not self.chance(20) else self.value()})"

    def _of_type(self) -> str:
        kind = st.sampled_from(KINDS).map(lambda name: {"S": name})
        return f"attribute_type({self.operand()}, {self.value(kind)})"

    def _begins(self) -> str:
        other = self.value(often(TEXTS, VALUES)) if not self.chance(4) else self.operand()
        return f"begins_with({self.operand()}, {other})"

    def _between(self) -> str:
        return f"{self.operand()} BETWEEN {self.operand()} AND {self.operand()}"

    def _in(self) -> str:
        options = [self.operand() for _ in range(self.draw(st.integers(1, 3)))]
        return f"{self.operand()} IN ({', '.join(options)})"

    def _compares(self) -> str:
        return f"{self.operand()} {self.one_of(COMPARATORS)} {self.operand()}"

    def update(self) -> str:
        """Draw an update."""
        sections = []
        order = self.draw(st.permutations(["SET", "REMOVE", "ADD", "DELETE"]))
        for section in order[: self.draw(st.sampled_from([1, 1, 2, 2, 3]))]:
            count = self.draw(st.sampled_from([1, 1, 2, 3]))
            parts = ", ".join(self._action(section) for _ in range(count))
            sections.append(f"{section} {parts}")
        return " ".join(sections)

    def _action(self, section: str) -> str:
        match section:
            case "SET":
                return f"{self._target('any', 'new', 'new')} = {self._assigned()}"
            case "REMOVE":
                return self._target("any")
            case "ADD" if self.chance(2):
                return f"{self._target('N', 'new')} {self.value(NUMBERS)}"
            case _:
                return f"{self._target('set', 'set', 'new')} {self.value(SETS)}"

    def _target(self, *kinds: str) -> str:
        """Draw what an action changes, usually apart from what the others do."""
        kind = self.one_of(kinds)
        free = [
            path
            for path in PATHS[kind]
            if not any(path.startswith(other) or other.startswith(path) for other in self.targets)
        ]
        if not free or self.chance(8):
            return self.path(kind)
        self.targets.append(self.one_of(free))
        first, dot, rest = self.targets[-1].partition(".")
        return self._renamed(first) + dot + rest

    def _assigned(self) -> str:
        match self.draw(st.integers(0, 8)):
            case 0 | 1:
                sign = self.one_of(["+", "-", " + ", " - "])
                return f"{self._term('N', NUMBERS)}{sign}{self._term('N', NUMBERS)}"
            case 2:
                return f"list_append({self._term('L', LISTS)}, {self._term('L', LISTS)})"
            case 3:
                return self._alternative("any", VALUES)
            case 4:
                return self.path()
            case 5 if self.chance(4):
                return self.one_of(["size(a)", "a + b + c", "(a + b)", "foo(a)", "((a))", "(a)"])
            case _:
                return self.value()

    def _term(self, kind: str, values: st.SearchStrategy[Any]) -> str:
        if self.chance(4):
            return self._alternative(kind, values)
        return self.path(kind) if self.chance(2) else self.value(often(values, VALUES))

    def _alternative(self, kind: str, values: st.SearchStrategy[Any]) -> str:
        other = self._term(kind, values) if self.chance(3) else self.value(values)
        path = self.path(self.one_of([kind, "new"]))
        return f"if_not_exists({path}, {other})"

    def projection(self) -> str:
        """Draw a projection."""
        return ", ".join(self.path() for _ in range(self.draw(st.integers(1, 4))))

    def key_condition(self) -> str:
        """Draw a key condition, of a key that is there or another one."""
        keys = often(st.sampled_from([{"S": "a"}, {"S": "b"}, {"S": "c"}]), SCALARS)
        partition = f"pk = {self.value(often(st.just({'S': 'a'}), keys))}"
        if self.chance(3):
            return partition
        match self.draw(st.integers(0, 4)):
            case 0:
                sort = f"sk BETWEEN {self.value(keys)} AND {self.value(keys)}"
            case 1:
                sort = f"begins_with(sk, {self.value(keys)})"
            case 2:
                sort = f"{self.value(keys)} {self.one_of(COMPARATORS)} sk"
            case _:
                sort = f"{self.name(['sk'])} {self.one_of(COMPARATORS)} {self.value(keys)}"
        return f"{partition} AND {sort}" if not self.chance(4) else f"({sort}) and {partition}"

    def fields(self) -> dict[str, Any]:
        """Return the placeholders as fields of the request, rarely with one that is not used."""
        fields: dict[str, Any] = {}
        if self.chance(60):
            self.values[":unused"] = {"S": "a"}
        if self.chance(60):
            self.names["#unused"] = "a"
        if self.names:
            fields["ExpressionAttributeNames"] = self.names
        if self.values:
            fields["ExpressionAttributeValues"] = self.values
        return fields
