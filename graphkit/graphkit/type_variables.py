"""Type variables of graphs, their schemas. Those on the right may be left out, as in LangGraph: `StateGraph[State]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", default=Any)
    ContextT = TypeVar("ContextT", default=Any)
    InputT = TypeVar("InputT", default=StateT)
    OutputT = TypeVar("OutputT", default=StateT)
else:
    from typing import TypeVar

    StateT, ContextT, InputT, OutputT = map(TypeVar, ("StateT", "ContextT", "InputT", "OutputT"))


class Defaulting:
    """Stands before `Generic` among the bases of a class whose type variables have defaults.

    Type checkers know them. Python does so from 3.13 on; here what is left out is Any while a program runs.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            given = given if isinstance(given, tuple) else (given,)
            return super().__class_getitem__((*given, *[Any] * (len(cls.__parameters__) - len(given))))
