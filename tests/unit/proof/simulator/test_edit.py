"""An edit of a function: what callers meet meanwhile, and text that is not there once."""

import functools

import pytest
from proof.simulator.edit import Edit
from proof.simulator.mutants import MUTANTS

HERE = __name__


def double(number: int) -> int:
    """Return twice a number."""
    return number * 2


@functools.cache
def kept(number: int) -> int:
    """Return a number, and remember that."""
    return number


class Base:
    """A class with a name."""

    def name(self) -> str:
        """Return its name."""
        return "base"


class Numbers(Base):
    """Functions of each kind."""

    @property
    def first(self) -> int:
        """The first one."""
        return 1

    @staticmethod
    def second() -> int:
        """Return the second one."""
        return 2

    @classmethod
    def third(cls) -> int:
        """Return the third one."""
        return 3

    def name(self) -> str:
        """Return its name, and that of its base."""
        return super().name() + " of numbers"


IMPORTED = double


def test_whoever_imported_the_function_meets_the_edit() -> None:
    """The object is the same; after the context the function is as before."""
    with Edit(f"{HERE}:double", "* 2", "* 3").active():
        assert IMPORTED(2) == 6
    assert IMPORTED(2) == 4


@pytest.mark.parametrize("kind", ["first", "second", "third"])
def test_functions_of_classes_can_be_edited(kind: str) -> None:
    """Properties, static methods and class methods alike."""
    with Edit(f"{HERE}:Numbers.{kind}", "return ", "return 10 + ").active():
        found = getattr(Numbers(), kind)
        assert (found if kind == "first" else found()) > 10


def test_a_method_may_call_its_base() -> None:
    """`super()` without arguments knows its class in the edited text, too."""
    with Edit(f"{HERE}:Numbers.name", "of numbers", "of all numbers").active():
        assert Numbers().name() == "base of all numbers"


def test_the_function_under_a_decorator_is_edited() -> None:
    """The decorator goes on calling it."""
    with Edit(f"{HERE}:kept", "return number", "return number + 1").active():
        assert kept(1) == 2


@pytest.mark.parametrize(("old", "times"), [("* 5", 0), ("number", 3)])
def test_text_that_is_not_there_once_is_refused(old: str, times: int) -> None:
    """An edit that rots breaks nothing in silence."""
    with (
        pytest.raises(ValueError, match=f"{times} times"),
        Edit(f"{HERE}:double", old, "").active(),
    ):
        pass


def test_only_functions_of_python_are_edited() -> None:
    """Another name is a mistake."""
    with pytest.raises(TypeError, match="no function"), Edit(f"{HERE}:HERE", "a", "b").active():
        pass


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_can_be_put_in_place(name: str) -> None:
    """Each old text occurs once in its function, and the edited text is Python."""
    with MUTANTS[name].active():
        pass
