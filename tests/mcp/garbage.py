"""A program that is hardly an MCP server: it connects, tells of a tool a page, and then answers calls as its argument
says."""

import json
import sys

TOOL = {"name": "break", "description": "Break.", "inputSchema": {"type": "object"}}
PAGES = {None: {"tools": [TOOL], "nextCursor": "2"}, "2": {"tools": [{**TOOL, "name": "mend"}]}}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "garbage", "version": "1"},
    },
}

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    result: object = RESULTS.get(method)
    if method == "tools/list":
        result = PAGES[(message.get("params") or {}).get("cursor")]
    if method == "tools/list" and sys.argv[1] == "names":
        result = {"tools": [{**TOOL, "name": "desk.look/up"}, {**TOOL, "name": "l" + "o" * 80 + "ng"}]}
    if method == "tools/call" and sys.argv[1] == "names":
        result = {"content": [{"type": "text", "text": message["params"]["name"]}]}
    elif method == "tools/call":
        print("this is no message")
        match sys.argv[1]:
            case "shape":
                result = {"content": 7}
            case "silence":
                continue
            case "blocks":
                image = {"type": "image", "data": "not base64!", "mimeType": "image/png"}
                result = {"content": [image]}
    if result is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
