"""The schemas of a graph as JSON schemas, for whoever draws forms or checks requests."""

from __future__ import annotations

from typing import Any

from graphkit.annotations import annotations_of
from graphkit.graph.schema import fields_of
from graphkit.pydantic_types import fields_of as annotated
from graphkit.pydantic_types import for_pydantic, typed_dict

__all__ = ["json_schema_of"]


def json_schema_of(schema: Any) -> dict[str, Any]:
    """The JSON schema of a TypedDict, dataclass, pydantic model or single value; {} of None.

    Of a TypedDict the keys that the graph computes are left out, and what no JSON can hold may be anything. Raises
    what pydantic raises for a type it cannot take.
    """
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema
    from typing_extensions import is_typeddict  # pydantic depends on it; it knows its own and those of typing

    class Generate(GenerateJsonSchema):
        def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
            return {}

    if schema is None:
        return {}
    if is_typeddict(schema):
        computed = fields_of(schema).managed
        fields = annotated(schema, annotations_of(schema))
        twin = typed_dict(
            schema.__name__, {key: field for key, field in fields.items() if key not in computed}
        )
        twin.__pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)
        schema = twin
    return TypeAdapter(for_pydantic(schema)).json_schema(schema_generator=Generate)
