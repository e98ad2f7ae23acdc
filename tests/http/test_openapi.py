"""The OpenAPI document says what the server does, no more and no less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from duly.domain.codes import CODES
from duly.http.app import route_table
from duly.http.openapi import openapi, statuses
from duly.http.routing import Route

ROUTES = list(route_table().routes)
DOCUMENT = openapi(ROUTES)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def named(declared: Route) -> str:
    return f"{declared.method} {declared.path}"


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


def operation(declared: Route) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][declared.path][declared.method.lower()]
    return found


async def test_it_is_served_to_keyholders(admin: httpx.AsyncClient) -> None:
    served = await admin.get("/v1/openapi.json")

    assert served.status_code == 200
    assert served.headers["content-type"] == "application/json"
    assert served.json() == DOCUMENT
    assert DOCUMENT["openapi"] == "3.1.0"


def test_every_route_is_in_it_and_nothing_else() -> None:
    documented = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert documented == {(declared.method, declared.path) for declared in ROUTES}


def test_every_reference_leads_somewhere_and_nothing_lies_about() -> None:
    referenced = {node["$ref"] for node in nodes(DOCUMENT) if "$ref" in node}

    assert referenced == {f"#/components/schemas/{name}" for name in SCHEMAS}


def test_operations_have_names_of_their_own() -> None:
    names = [operation(declared)["operationId"] for declared in ROUTES]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][A-Za-z]+", name) for name in names)


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name.endswith("Shape")])
def test_requests_are_as_strict_as_the_server(name: str) -> None:
    assert SCHEMAS[name]["additionalProperties"] is False


def test_enums_ranges_and_patterns_are_spelled_out() -> None:
    job = SCHEMAS["JobShape"]["properties"]

    assert SCHEMAS["Priority"]["enum"] == ["CRITICAL", "HIGH", "LOW", "NORMAL"]
    assert (
        SCHEMAS["RetryShape"]["properties"]["maxAttempts"]["minimum"],
        SCHEMAS["RetryShape"]["properties"]["maxAttempts"]["maximum"],
    ) == (1, 1000)
    assert job["name"]["anyOf"][0]["pattern"] == "^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
    assert job["payload"] == {"$ref": "#/components/schemas/AnyJson"}
    assert SCHEMAS["EnqueueBatchShape"]["required"] == ["executions"]


@pytest.mark.parametrize("declared", ROUTES, ids=named)
def test_only_public_routes_go_without_a_key(declared: Route) -> None:
    assert (operation(declared).get("security") == []) is (declared.role is None)
    assert ("401" in operation(declared)["responses"]) is (declared.role is not None)


@pytest.mark.parametrize("declared", ROUTES, ids=named)
def test_every_problem_is_a_problem_document(declared: Route) -> None:
    for status, response in operation(declared)["responses"].items():
        if int(status) >= 400:
            (content,) = response["content"].items()
            assert content[0] == "application/problem+json"
            assert content[1]["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert CODES[content[1]["example"]["code"]].status == int(status)
            assert all(CODES[code].status == int(status) for code in statuses(declared)[int(status)])


@pytest.mark.parametrize("declared", ROUTES, ids=named)
def test_parameters_match_the_path_and_never_take_null(declared: Route) -> None:
    parameters = operation(declared)["parameters"]

    assert {item["name"] for item in parameters if item["in"] == "path"} == set(re.findall(r"{(\w+)}", declared.path))
    assert not any("anyOf" in item["schema"] or item["schema"].get("default", 0) is None for item in parameters)


@pytest.mark.parametrize("declared", [declared for declared in ROUTES if declared.examples], ids=named)
def test_examples_are_taken_by_the_server(declared: Route) -> None:
    import msgspec

    for example in declared.examples.values():
        assert declared.decode(msgspec.json.encode(example)) is not None


@pytest.mark.parametrize("declared", ROUTES, ids=named)
def test_every_route_has_examples_that_are_what_they_stand_for(declared: Route) -> None:
    import msgspec

    shown = operation(declared)
    for status, response in shown["responses"].items():
        for media, content in response.get("content", {}).items():
            if declared.path == "/v1/openapi.json" and status == "200":
                continue
            assert "example" in content, (status, media)
            if media == "application/json":
                assert msgspec.convert(content["example"], declared.answer) is not None
    if declared.body is not None:
        [content] = shown["requestBody"]["content"].values()
        examples = content["examples"]
        assert examples
        for example in examples.values():
            assert declared.decode(msgspec.json.encode(example["value"])) is not None


@pytest.mark.parametrize("declared", [declared for declared in ROUTES if declared.streams], ids=named)
def test_streams_are_documented(declared: Route) -> None:
    content = operation(declared)["responses"]["200"]["content"]

    assert "text/event-stream" in content
    assert ("application/json" in content) is (declared.answer is not None)


def broken(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Texts of an example that break the patterns of their schema, wherever they stand."""
    while "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema and "properties" not in schema:
        options = [list(broken(value, option)) for option in schema["anyOf"] if (value is None) is (option == {"type": "null"})]
        yield from min(options, key=len, default=[])
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from broken(item, schema.get("properties", {}).get(key, schema.get("additionalProperties") or {}))
    elif isinstance(value, list):
        for item in value:
            yield from broken(item, schema.get("items", {}))
    elif isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{value!r} is not {schema['pattern']}"


@pytest.mark.parametrize("declared", ROUTES, ids=named)
def test_examples_keep_to_the_patterns_of_what_they_stand_for(declared: Route) -> None:
    shown = operation(declared)
    contents = [content for response in shown["responses"].values() for content in response.get("content", {}).values()]
    contents += shown.get("requestBody", {}).get("content", {}).values()

    for content in contents:
        examples = [content["example"]] if "example" in content else [one["value"] for one in content.get("examples", {}).values()]
        for example in examples:
            assert list(broken(example, content["schema"])) == []
