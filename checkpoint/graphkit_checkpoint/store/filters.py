"""Whether a value meets a filter: the one verdict that all stores share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def check_filter(wanted: object) -> None:
    """Raises ValueError for what no value could be compared with, whatever is stored."""
    if not isinstance(wanted, dict):
        raise ValueError(f"a filter is a dict of fields and what they must be, not {wanted!r:.80}")
    for condition in wanted.values():
        _check_condition(condition)


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether every field that the filter names is as it says. A missing field counts as None.

    A condition is a value to equal, a list to equal item by item, a dict of conditions for fields of
    their own (further fields do not matter), or a dict of operators. `$eq` and `$ne` compare as `==`
    does, the others as `<` does: what Python cannot put in order does not match. Inside `$eq` a dict is
    compared as a whole.
    """
    return all(_meets(value.get(field), condition) for field, condition in wanted.items())


def _check_condition(condition: object) -> None:
    if isinstance(condition, (list, tuple)):
        for part in condition:
            _check_condition(part)
    elif isinstance(condition, dict):
        names = [name for name in condition if _is_operator(name)]
        if not names:
            check_filter(condition)
        elif unknown := [name for name in condition if name not in OPERATORS]:
            raise ValueError(f"{unknown[0]!r} is not an operator; there are {', '.join(OPERATORS)}")


def _is_operator(name: object) -> bool:
    return isinstance(name, str) and name.startswith("$")


def _meets(found: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        if any(map(_is_operator, condition)):
            return all(_compares(found, name, operand) for name, operand in condition.items())
        return isinstance(found, dict) and matches(found, condition)
    if isinstance(condition, (list, tuple)):
        same_form = isinstance(found, (list, tuple)) and len(found) == len(condition)
        return same_form and all(map(_meets, found, condition))
    return bool(found == condition)


def _compares(found: Any, name: str, operand: Any) -> bool:
    try:
        return bool(OPERATORS[name](found, operand))
    except TypeError:
        return False
