"""The dataclasses of the reading half behave like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, ClassVar

import pytest

from pyio_trace import light_dataclass


def _made(decorator: Any, frozen: bool) -> Any:
    @decorator(frozen=frozen)
    class Point:
        """A point."""

        x: int
        name: str = "a"
        parts: list[int] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=0, repr=False, compare=False)

    Point.__qualname__ = "Point"
    return Point


@pytest.mark.parametrize("frozen", [True, False])
def test_as_in_the_standard_library(frozen: bool) -> None:
    # GIVEN the same class made both ways
    ours, theirs = _made(light_dataclass.dataclass, frozen), _made(dataclasses.dataclass, frozen)
    # THEN instances are compared, shown, copied and taken apart alike
    for make in (lambda cls: cls(1), lambda cls: cls(2, "b", [3], hidden=4), lambda cls: cls(x=1, name="c")):
        one, other = make(ours), make(theirs)
        assert repr(one) == repr(other)
        assert dataclasses.asdict(one) == dataclasses.asdict(other)
        for changes in ({}, {"x": 9}, {"parts": [1]}, {"hidden": 8}):
            same = dataclasses.replace(one, **changes) == one
            assert same == (dataclasses.replace(other, **changes) == other)
            assert (dataclasses.replace(one, **changes) != one) != same
    assert ours(1) != theirs(1)
    assert ours(1) != (1, "a", [])
    with pytest.raises(TypeError):
        ours()


def test_without_compared_fields() -> None:
    @light_dataclass.dataclass(frozen=True)
    class Nothing:
        hidden: int = dataclasses.field(default=0, compare=False)

    @light_dataclass.dataclass(frozen=True)
    class Other:
        hidden: int = dataclasses.field(default=0, compare=False)

    assert Nothing(1) == Nothing(2) and hash(Nothing(1)) == hash(Nothing(2))
    assert Nothing(1) != Other(1)


def test_frozen() -> None:
    ours = _made(light_dataclass.dataclass, frozen=True)
    one = ours(1, parts=())
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2
    assert hash(one) == hash(ours(1, parts=(), hidden=5))
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    with pytest.raises(TypeError):
        hash(_made(light_dataclass.dataclass, frozen=False)(1))


def test_constructors() -> None:
    # GIVEN a class with a constant and a check of its own, and one derived from it
    @light_dataclass.dataclass(frozen=True)
    class Base:
        x: int
        MOST: ClassVar[int] = 3

        def __post_init__(self) -> None:
            if self.x > self.MOST:
                raise ValueError(self.x)

    @light_dataclass.dataclass(frozen=True)
    class Derived(Base):
        y: int = 5
        parts: list[int] = dataclasses.field(default_factory=list)

    # THEN each takes its values by position or by name, and nothing else
    derived = Derived(1)
    assert (derived.x, derived.y, derived.parts, derived.MOST) == (1, 5, [], 3)
    assert derived.parts is not Derived(1).parts
    assert Derived(2, y=6) == Derived(y=6, x=2) == dataclasses.replace(derived, x=2, y=6) == copy.copy(Derived(2, 6))
    for values, named in (((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((1,), {"MOST": 1})):
        with pytest.raises(TypeError, match=r"Derived\(x, y, parts\) was given"):
            Derived(*values, **named)
    # AND the check is made
    for cls in (Base, Derived):
        with pytest.raises(ValueError, match="4"):
            cls(4)


def test_every_class_says_what_it_is() -> None:
    @light_dataclass.dataclass
    class Bare:
        x: int
        y: str = "a"

    @light_dataclass.dataclass
    class Described:
        """A thing."""

        x: int

    assert (Bare.__doc__, Described.__doc__) == ("Bare(x, y)", "A thing.")


def test_own_methods_stay() -> None:
    @light_dataclass.dataclass
    class Same:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

        def __repr__(self) -> str:
            return "same"

    assert Same(1) == Same(2) and hash(Same(1)) == 0
    assert repr(Same(1)) == "same"
