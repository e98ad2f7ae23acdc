"""What the OpenAPI document says of texts, the server holds to: a value that breaks a pattern or a format is refused wherever it stands."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest

from duly.http.app import route_table
from duly.http.openapi import openapi
from duly.http.routing import Route
from tests.http.conftest import ADMIN, WORKER, Bench
from tests.http.test_routing import filled

ROUTES = list(route_table().routes)
DOCUMENT = openapi(ROUTES)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
ECHO = {"handler": "duly.echo"}
# The least that makes sense around a value, where that is more than what the schema asks for.
AROUND: dict[str, dict[str, Any]] = {
    "JobShape": {"schedule": "0 3 * * *", "target": ECHO},
    "PreviewShape": {"schedule": "0 3 * * *"},
    "StepShape": {"name": "a", "target": ECHO},
    "TargetShape": ECHO,
    "RuleShape": {"kind": "no_success", "afterSec": 900, "jobs": ["nightly"]},
    "ChannelShape": {"kind": "webhook", "url": "https://ops.example.com/hook"},
    "KeyShape": {"name": "k", "role": "WORKER"},
    "BulkShape": {"action": "discard", "everything": True},
    "SessionShape": {},
}
# What cannot stand beside a value: another way to say the same.
NOT_BESIDE: dict[tuple[str, str], tuple[str, ...]] = {
    ("TargetShape", "http"): ("handler",),
    ("TargetShape", "shell"): ("handler",),
    ("JobShape", "steps"): ("target",),
    ("StepShape", "workflow"): ("target",),
    ("BulkShape", "match"): ("everything",),
    ("JobShape", "runAt"): ("schedule",),
    ("JobShape", "anchorAt"): ("schedule",),
    ("PreviewShape", "runAt"): ("schedule",),
    ("PreviewShape", "anchorAt"): ("schedule",),
}
TRIED = (
    "not it",
    "é",
    "a\n",
    "\n",
    "-a",
    "a b",
    "%",
    "１",
    "A" * 40,
    "x;y",
    "1",
    "Mars/Olympus\n",
    "2026-13-01",
    "1969-01-01T00:00:00Z",
    "",
)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    return schema


def choices(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that may stand here, with the name that it has."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name == "AnyJson":
        return
    found = resolved(schema)
    if "anyOf" in found and "properties" not in found:
        for option in found["anyOf"]:
            yield from choices(option)
    else:
        yield name, found


Place = tuple[tuple[Any, ...], dict[str, Any], Any]


def places(schema: dict[str, Any], depth: int = 0) -> Iterator[Place]:
    """Every text with a pattern or a format in it: the way there, its schema, and the least around it with None in its place."""
    for name, found in choices(schema):
        kind = found.get("type")
        if kind == "string" and ("pattern" in found or "format" in found):
            yield (), found, None
        elif kind == "array" and depth < 12:
            for way, text, around in places(found.get("items", {}), depth + 1):
                yield (0, *way), text, [around]
        elif kind == "object" and depth < 12:
            least = copy.deepcopy(AROUND.get(name, least_of(found)))
            for key, inner in found.get("properties", {}).items():
                for way, text, around in places(inner, depth + 1):
                    beside = {one: value for one, value in least.items() if one not in NOT_BESIDE.get((name, key), ())}
                    if (name, key) == ("TargetShape", "env"):
                        beside = {"shell": ["true"]}
                    yield (key, *way), text, {**beside, key: around}
            names = found.get("propertyNames", {})
            if "pattern" in names:
                yield (KEY,), names, {**least, KEY: "x"}
            for way, text, around in places(found.get("additionalProperties") or {}, depth + 1):
                yield ("x", *way), text, {**least, "x": around}


KEY = "\x01key"


def least_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: sample(schema["properties"][key]) for key in schema.get("required", ())}


def sample(schema: dict[str, Any]) -> Any:
    name, found = next(choices(schema), ("", {}))
    if found.get("examples"):
        return found["examples"][0]
    if "enum" in found or "const" in found:
        return found.get("enum", [found.get("const")])[0]
    match found.get("type"):
        case "string":
            return "2026-03-08T07:00:00Z" if found.get("format") == "date-time" else "2026-03-08" if "format" in found else "02:00"
        case "integer" | "number":
            return found.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return [sample(found["items"])]
        case "object":
            return copy.deepcopy(AROUND.get(name)) or least_of(found)
        case _:
            return 1


def breaks(text: str, schema: dict[str, Any]) -> bool:
    """Whether the text is no such value, as other languages read patterns: `$` takes no newline. Its length is right."""
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 10_000):
        return False
    if "pattern" in schema and not re.search(re.sub(r"\$$", r"\\Z", schema["pattern"]), text):
        return True
    try:
        match schema.get("format"):
            case "date-time":
                return datetime.fromisoformat(text).tzinfo is None
            case "date":
                return date.fromisoformat(text) is None
    except ValueError:
        return True
    return False


def put(around: Any, way: tuple[Any, ...], value: str) -> Any:
    if not way:
        return value
    first, *rest = way
    if first == KEY:
        return {**{key: item for key, item in around.items() if key != KEY}, value: "x"}
    inside = put(around[first], tuple(rest), value)
    return [inside] if isinstance(around, list) else {**around, first: inside}


def shown(way: tuple[Any, ...]) -> str:
    return ".".join("{}" if step == KEY else "[]" if step == 0 else str(step) for step in way)


BODIES = {
    f"{declared.method} {declared.path}": (declared, found)
    for declared in ROUTES
    if declared.body is not None and not declared.form
    for operation in [DOCUMENT["paths"][declared.path][declared.method.lower()]]
    if (found := list(places(operation["requestBody"]["content"]["application/json"]["schema"])))
}


@pytest.fixture
def store_kind() -> str:
    """Nothing of this gets to the store."""
    return "sqlite"


async def paths(bench: Bench, declared: Route) -> str:
    """The route's path, with what is there in the place of ids."""
    job = await bench.job(name="nightly", schedule="0 3 * * *")
    worker = await bench.client(WORKER).post("/v1/workers", json={"name": "w", "handlers": ["duly.echo"]})
    known = {"{tenant}": "default", "{jobId}": job, "{executionId}": await bench.enqueue(job), "{workerId}": worker.json()["workerId"]}
    path = declared.path
    for name, id in known.items():
        path = path.replace(name, id)
    return filled(path)


@pytest.mark.parametrize("name", BODIES)
async def test_what_breaks_a_pattern_is_refused_wherever_it_stands(bench: Bench, name: str) -> None:
    declared, found = BODIES[name]
    path = await paths(bench, declared)
    client = bench.client(WORKER if declared.role and declared.role.name == "WORKER" else ADMIN)
    taken: list[str] = []

    for way, schema, around in found:
        for text in TRIED:
            if breaks(text, schema):
                answer = await client.request(declared.method, path, json=put(around, way, text))
                said = answer.json() if answer.content else {}
                named = any(isinstance(step, str) and step in str(said.get("field")) for step in way)
                if answer.status_code != 422 or not (named or said["code"] == "DULY-E111"):
                    taken.append(
                        f"{shown(way)} = {text!r}: {answer.status_code} {said.get('code')} {said.get('field')} {said.get('detail')}"
                    )

    assert not taken, "\n".join(taken)


def test_the_places_are_found() -> None:
    """The generator itself: it must see into lists, maps, and shapes within shapes."""
    ways = {shown(way) for way, _, _ in BODIES["POST /v1/jobs:batch"][1]}

    assert {
        "jobs.[].name",
        "jobs.[].after.[].job",
        "jobs.[].target.requires.{}",
        "jobs.[].steps.[].target.http.url",
        "jobs.[].steps.[].retryPolicy.rules.[].error",
    } <= ways


QUERIES = [
    (declared, parameter)
    for declared in ROUTES
    for parameter in DOCUMENT["paths"][declared.path][declared.method.lower()]["parameters"]
    if parameter["in"] in ("query", "path") and {"pattern", "format"} & resolved(parameter["schema"]).keys()
]


@pytest.mark.parametrize(
    ("declared", "parameter"), QUERIES, ids=[f"{one.method} {one.path} {parameter['name']}" for one, parameter in QUERIES]
)
async def test_what_breaks_a_pattern_is_refused_in_a_path_and_a_query(bench: Bench, declared: Route, parameter: dict[str, Any]) -> None:
    client = bench.client(WORKER if declared.role and declared.role.name == "WORKER" else ADMIN)
    path = await paths(bench, declared)
    for text in ("é", "a b", "a\n", "%", "-", "１", "A" * 70):
        if not breaks(text, resolved(parameter["schema"])):
            continue
        if parameter["in"] == "path":
            if not re.fullmatch(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*", text):
                continue  # no segment of a path at all: there is no such route
            answer = await client.request(declared.method, declared.path.replace(f"{{{parameter['name']}}}", text))
        else:
            answer = await client.request(declared.method, path, params={parameter["name"]: text})
        assert answer.status_code == 422, (text, answer.text)
