"""The Model Context Protocol over lines of JSON-RPC: what comes in as a message goes out as an answer, or as none.

Our own few lines instead of the official package, which brings a web framework, a validator and an HTTP client along for what is, with
tools alone, five methods. Nothing here reads or writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duly.domain.errors import DulyError, Invalid

# Newest first; a client that asks for one of them gets it, any other the newest.
VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
LARGEST_ANSWER = 100_000
LARGEST_MESSAGE = 1 << 20

_PARSE, _REQUEST, _METHOD, _PARAMS = -32700, -32600, -32601, -32602


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that can be asked or done: its name, what it is for, its arguments as a JSON Schema, and the call."""

    name: str
    description: str
    arguments: Mapping[str, Any]
    required: tuple[str, ...]
    call: Callable[[Mapping[str, Any]], Any]
    acts: bool = False

    def shown(self) -> dict[str, Any]:
        """As a client is told of it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": dict(self.arguments),
                "required": list(self.required),
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": not self.acts, "destructiveHint": self.acts, "openWorldHint": False},
        }


class Protocol:
    """The answers of one server with these tools."""

    def __init__(self, name: str, version: str, instructions: str, tools: Sequence[Tool]) -> None:
        self._about = {"name": name, "version": version}
        self._instructions = instructions
        self._tools = {tool.name: tool for tool in tools}

    def answer(self, line: str) -> str | None:
        """The answer to one line; None for what wants none. Never raises for what a client sends."""
        if len(line) > LARGEST_MESSAGE:
            return _failed(None, _REQUEST, "The message is larger than 1 MB.")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return _failed(None, _PARSE, "The line is not JSON.")
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            return _failed(None, _REQUEST, "The message is not a JSON-RPC request.")
        if "id" not in message:
            return None
        number, params = message["id"], message.get("params", {})
        if not isinstance(params, dict):
            return _failed(number, _PARAMS, "params must be an object.")
        match message["method"]:
            case "initialize":
                return _done(number, self._initialized(params))
            case "ping":
                return _done(number, {})
            case "tools/list":
                return _done(number, {"tools": [tool.shown() for tool in self._tools.values()]})
            case "tools/call":
                return self._called(number, params)
            case other:
                return _failed(number, _METHOD, f"There is no method {other[:60]!r}.")

    def _initialized(self, params: Mapping[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": self._about,
            "instructions": self._instructions,
        }

    def _called(self, number: Any, params: Mapping[str, Any]) -> str:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            return _failed(number, _PARAMS, f"There is no tool {str(params.get('name'))[:60]!r}.")
        given = params.get("arguments") or {}
        if not isinstance(given, dict):
            return _failed(number, _PARAMS, "arguments must be an object.")
        try:
            _check(tool, given)
            text = json.dumps(tool.call(given), ensure_ascii=False, indent=1)
        except DulyError as error:
            said = f"{error.code}: {f'{error.field}: ' if error.field else ''}{error.message}{f' {error.hint}' if error.hint else ''}"
            return _done(number, {"content": [{"type": "text", "text": said}], "isError": True})
        if len(text) > LARGEST_ANSWER:
            text = text[:LARGEST_ANSWER] + "\n… cut off here; ask for less with limit or a narrower filter."
        return _done(number, {"content": [{"type": "text", "text": text}], "isError": False})


_KINDS: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "object": dict, "boolean": bool}


def _check(tool: Tool, given: Mapping[str, Any]) -> None:
    for name in tool.required:
        if name not in given:
            raise Invalid("DULY-E106", "is missing.", field=name)
    for name, value in given.items():
        if name not in tool.arguments:
            raise Invalid("DULY-E106", "is not known.", field=name, hint=f"There are {', '.join(tool.arguments) or 'none'}.")
        kind = tool.arguments[name].get("type", "string")
        if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
            raise Invalid("DULY-E106", f"must be of type {kind}.", field=name)


def _done(number: Any, result: Mapping[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}, ensure_ascii=False)


def _failed(number: Any, code: int, message: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}, ensure_ascii=False)
