"""The types that plugins declare for their state: any that pydantic knows."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphkit.channels import MISSING

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["check_types", "dumped", "made"]


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def made(kind: Any, found: Any, name: str) -> Any:
    """The state of a plugin as its type, of what is kept of it; if nothing is, as `Agent.get_plugin_state` says. Raises
    `ValueError`."""
    if found is MISSING:
        try:
            return kind()
        except (TypeError, ValueError):  # it has fields without a default
            return None
    try:
        return _adapter(kind).validate_python(found)
    except ValueError as error:
        raise ValueError(f"what is kept of plugin {name!r} is no {_named(kind)}: {error}") from error


def dumped(kind: Any, state: Any, name: str) -> Any:
    """The state as builtin values. Raises `ValueError` for one that is not of the type."""
    adapter = _adapter(kind)
    try:
        plain = adapter.dump_python(adapter.validate_python(state), warnings=False)
        adapter.validate_python(plain)
    except ValueError as error:
        raise ValueError(
            f"{state!r:.200} is no state of plugin {name!r}, a {_named(kind)}: {error}"
        ) from error
    return plain


def _named(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def check_types(plugin: Any) -> None:
    """Raises `TypeError` for a plugin that declares as the type of its state what is none."""
    for what in ("state_type", "invocation_state_type"):
        if (kind := getattr(plugin, what)) is None:
            continue
        try:
            _adapter(kind)
        except Exception as error:  # whatever pydantic finds
            raise TypeError(
                f"{what} of plugin {plugin.name!r} is {kind!r:.200}, of which no state can be made: {error}"
            ) from error
