"""From what an MCP tool returns to a tool's result."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp.types import CallToolResult

_IMAGES: Final = {
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
}


def content_of(result: CallToolResult) -> dict[str, Any]:
    """The result of a call as a tool of an agent returns it: status and blocks.

    Text and embedded text become text, pictures images; what has no block here (sound, links, other bytes) is told of
    in words. Structured content is there as it is, under "structuredContent", and shown as JSON where there is nothing
    else. Raises `ValueError` for bytes that are no base64.
    """
    blocks = [_block(part) for part in result.content]
    if not blocks and result.structured_content is not None:
        blocks = [{"json": result.structured_content}]
    found: dict[str, Any] = {
        "status": "error" if result.is_error else "success",
        "content": blocks or [{"text": "(no content)"}],
    }
    if result.structured_content is not None:
        found["structuredContent"] = result.structured_content
    return found


def _block(part: Any) -> dict[str, Any]:
    match part.type:
        case "text":
            return {"text": part.text}
        case "image":
            return _picture(part.data, part.mime_type)
        case "resource":
            resource = part.resource
            if hasattr(resource, "text"):
                return {"text": resource.text}
            return _picture(resource.blob, resource.mime_type or "application/octet-stream")
        case "resource_link":
            return {"text": f"{part.name}: {part.uri}"}
    return {"text": f"({part.type}, {getattr(part, 'mime_type', None) or 'of an unknown type'})"}


def _picture(data: str, kind: str) -> dict[str, Any]:
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(f"the server returned bytes ({kind}) that are no base64: {error}") from error
    if kind in _IMAGES:
        return {"image": {"format": _IMAGES[kind], "source": {"bytes": raw}}}
    if kind.startswith("text/") or kind.endswith(("json", "xml", "yaml")):
        return {"text": raw.decode("utf-8", "replace")}
    return {"text": f"({len(raw)} bytes, {kind})"}
