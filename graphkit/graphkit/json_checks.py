"""What pydantic-core cannot check of a JSON schema by itself: functions for its validators.

Each takes a value of the kind that it speaks of and returns it as it was, or raises pydantic's own error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def nothing_fits(value: Any) -> Any:
    from pydantic_core import PydanticCustomError

    raise PydanticCustomError("nothing_fits", "No input is allowed here")


def only_for(kind: type | tuple[type, ...], value: Any, check: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind) and not isinstance(value, bool):
        check(value)
    return value


def whole(value: Any, check: Callable[[Any], Any]) -> Any:
    check(int(value) if isinstance(value, float) and value.is_integer() else value)
    return value


def bounded(holds: Callable[[Any, Any], bool], error: Any, bound: dict[str, Any], value: Any) -> Any:
    from pydantic_core import PydanticKnownError

    if not holds(value, *bound.values()):
        raise PydanticKnownError(error, bound)
    return value


def found(search: Callable[[str], Any], pattern: str, value: str) -> str:
    from pydantic_core import PydanticKnownError

    if not search(value):
        raise PydanticKnownError("string_pattern_mismatch", {"pattern": pattern})
    return value


def one_of(allowed: list[Any], value: Any) -> Any:
    from pydantic_core import PydanticKnownError

    if _comparable(value) not in map(_comparable, allowed):
        raise PydanticKnownError("literal_error", {"expected": " or ".join(map(repr, allowed))})
    return value


def unique(values: list[Any]) -> list[Any]:
    from pydantic_core import PydanticCustomError

    if len(set(map(_comparable, values))) < len(values):
        raise PydanticCustomError("unique_items", "Items should be unique")
    return values


def _comparable(value: Any) -> Any:
    """Hashable, and equal exactly if two JSON values are: 1 equals 1.0, but `True` does not equal 1."""
    if is_array(value):
        return "array", tuple(map(_comparable, value))
    if is_object(value):
        return "object", frozenset((key, _comparable(item)) for key, item in value.items())
    return value if type(value) in (str, int, float) else (type(value), repr(value))


def fits(value: Any, check: Callable[[Any], Any]) -> bool:
    from pydantic_core import ValidationError

    try:
        check(value)
    except ValidationError:
        return False
    return True


def fits_at_most_one(value: Any, check: Callable[[Any], tuple[bool, ...]]) -> Any:
    from pydantic_core import PydanticCustomError

    fitting = sum(check(value))
    if fitting > 1:
        raise PydanticCustomError(
            "one_of",
            "Input should fit exactly one of the alternatives, it fits {fitting}",
            {"fitting": fitting},
        )
    return value
