"""A clerk in the place of a model, so that the example runs without one: it looks an order up and refunds its price."""

from __future__ import annotations

import json
import re
from typing import Any

from graphkit.models import ModelRequest, ToolCall


def clerk(request: ModelRequest) -> Any:
    """The next turn of the conversation that was sent."""
    blocks = [block for message in request.messages for block in message["content"]]
    found = re.search(r"[A-Z]-\d+", blocks[0]["text"])
    if found is None:
        return "Which order is it about?"
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    if not results:
        return ["Let me see.", ToolCall("find_order", {"order_id": found[0]})]
    last = results[-1]
    said = last["content"][0]["text"]
    if last["status"] == "error":
        return f"I am sorry. {said}"
    if len(results) == 1:
        return ToolCall("refund", {"order_id": found[0], "amount": json.loads(said)["price"]})
    return f"Done: {said}."
