"""The OpenAPI 3.1 document, generated from the route table and the wire's structs: it cannot say what the server does not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from duly.domain.access import Role
from duly.domain.codes import CODES
from duly.http import attribution
from duly.http.auth import SESSION_COOKIE
from duly.http.problems import MEDIA_TYPE
from duly.http.routing import Call, Reply, Route, route
from duly.http.samples import least_of, sample_of, sample_problem
from duly.http.services import installed_version
from duly.wire.problems import Problem

Schema = dict[str, Any]

REF = "#/components/schemas/{name}"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

_NEEDS_KEY = ("DULY-E301", "DULY-E302", "DULY-E303", "DULY-E308", "DULY-E311", "DULY-E501")
# What a browser meets that would change something.
_CHANGES = ("DULY-E309", "DULY-E310")
_TAKES_FORM = ("DULY-E106", "DULY-E109", "DULY-E110", "DULY-E115", "DULY-E124")
_TAKES_BODY = ("DULY-E106", "DULY-E107", "DULY-E108", "DULY-E109", "DULY-E110", "DULY-E115", "DULY-E124")

_PATH_IDS: Mapping[str, Schema] = {
    "jobId": {"type": "string", "pattern": "^job_[0-9a-f]{32}$", "examples": ["job_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d"]},
    "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "examples": ["de-holidays"]},
    "tenant": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "examples": ["acme"]},
    "pool": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "examples": ["default"]},
    "executionId": {"type": "string", "pattern": "^run_[0-9a-f]{32}$", "examples": ["run_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d"]},
    "batchId": {"type": "string", "pattern": "^batch_[0-9a-f]{32}$", "examples": ["batch_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d"]},
    "workerId": {"type": "string", "pattern": "^[0-9]{1,18}$", "examples": ["17"]},
    "incidentId": {"type": "string", "pattern": "^inc_[0-9a-f]{32}$", "examples": ["inc_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d"]},
    "linkId": {"type": "string", "pattern": "^[0-9a-f]{16}$", "examples": ["9f86d081884c7d65"]},
    "keyId": {"type": "string", "pattern": "^[0-9a-f]{16}$", "examples": ["9f86d081884c7d65"]},
}
_ROLES: Mapping[Role, str] = {
    Role.WORKER: "WORKER or ADMIN",
    Role.VIEWER: "VIEWER or higher",
    Role.OPERATOR: "OPERATOR or ADMIN",
    Role.ADMIN: "ADMIN",
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key with the same request gives the same answer for 24 hours.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}
_EVENTS = 'id: 1767614400000000\nevent: execution\ndata: {"executionId":"run_0198c2d5b7f87a1c8d2e3f4a5b6c7d8e","state":"RUNNING"}\n\n'
_RATE_LIMIT: Mapping[str, Schema] = {
    "RateLimit-Policy": {
        "required": False,
        "description": "What the key may ask for: q requests in w seconds. Not there when requests are not limited.",
        "schema": {"type": "string", "examples": ['"key";q=10000;w=2']},
    },
    "RateLimit": {
        "required": False,
        "description": "What is left of it: r requests; all of it again in t seconds.",
        "schema": {"type": "string", "examples": ['"key";r=9997;t=1']},
    },
}

# Any JSON whose strings can be stored. Its depth is bounded too, which a schema cannot say.
_ANY_JSON: Schema = {
    "description": "Any JSON value, at most 32 levels deep, without NUL characters.",
    "anyOf": [
        {"type": ["null", "boolean", "number"]},
        {"type": "string", "pattern": "^[^\\u0000]*$"},
        {"type": "array", "items": {"$ref": REF.format(name="AnyJson")}},
        {"type": "object", "propertyNames": {"pattern": "^[^\\u0000]*$"}, "additionalProperties": {"$ref": REF.format(name="AnyJson")}},
    ],
}


def _given(*names: str) -> Schema:
    """Objects that have these keys, and not as null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def _timing(kind: str, own: str | None, *, has_zone: bool = False) -> Schema:
    """Objects of this type of job, whether they say so or leave it to their own key."""
    absent: Schema = {key: {"type": "null"} for key in ("schedule", "intervalSec", "runAt", "delaySec") if key != own}
    only_cron: Schema = {} if has_zone else {"seconds": {"const": False}, "timezone": {"type": "null"}}
    only_cron |= {} if own is not None else {"calendars": {"maxItems": 0}, "jitterSec": {"const": 0}}
    needed: Schema = {} if own is None else {own: {"not": {"type": "null"}}}
    return {
        "properties": {"type": {"enum": [kind, None]}, **absent, **only_cron, **needed},
        **({} if own is None else {"required": [own]}),
    }


_TIMED = [
    _timing("CRON", "schedule", has_zone=True),
    {**_timing("RRULE", "schedule", has_zone=True), "required": ["type", "schedule"]},
    _timing("INTERVAL", "intervalSec"),
    _timing("ONE_TIME", "runAt"),
    _timing("DELAYED", "delaySec"),
    {**_timing("DELAYED", "runAt"), "required": ["type", "runAt"]},
]

# What the structs cannot say about their keys together.
_TOGETHER: Mapping[str, Schema] = {
    "TargetShape": {"oneOf": [_given("handler"), _given("http"), _given("shell")]},
    "EnqueueShape": {"not": _given("runAt", "delaySec")},
    "JobShape": {"anyOf": [*_TIMED, _timing("ON_DEMAND", None)]},
    "PreviewShape": {"anyOf": _TIMED},
    "KeyShape": {"anyOf": [{"properties": {"role": {"const": "WORKER"}}}, {"properties": {"pools": {"type": "null"}}}]},
}


def openapi_route(declared: Sequence[Route]) -> Route:
    """The route that serves the document about the others and itself. It needs a key like the rest."""
    document: dict[str, Any] = {}

    @route("GET", "/v1/openapi.json", role=Role.VIEWER, answer=dict[str, Any])
    async def show_openapi(call: Call) -> Reply:
        """This document"""
        if not document:
            document.update(openapi([*declared, show_openapi]))
        return Reply(document)

    return show_openapi


def openapi(routes: Sequence[Route], version: str | None = None) -> dict[str, Any]:
    """The document of these routes."""
    types = list(dict.fromkeys([Problem, *(kind for declared in routes for kind in (declared.answer, declared.body) if kind is not None)]))
    shown, components = msgspec.json.schema_components(types, ref_template=REF)
    schemas = dict(zip(types, shown, strict=True))
    for query in {declared.query for declared in routes if declared.query is not None}:
        # A query is spelled out parameter by parameter; what its parameters refer to stands here.
        _, defined = msgspec.json.schema_components([query], ref_template=REF)
        components |= {name: schema for name, schema in defined.items() if name != query.__name__}
    paths: dict[str, dict[str, Any]] = {}
    for declared in routes:
        paths.setdefault(declared.path, {})[declared.method.lower()] = _operation(declared, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Duly",
            "version": version or installed_version(),
            "summary": "A job scheduler that fires on time, runs once, and says why.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"session": []}],
        "tags": [{"name": name} for name in sorted({_tag(declared) for declared in routes})],
        "paths": paths,
        "components": {
            "schemas": _refined(components),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key, such as duly_…"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": SESSION_COOKIE,
                    "description": "A browser's session. Anything but a GET also needs X-CSRF-Token and comes from our own pages.",
                },
            },
        },
    }


def statuses(declared: Route) -> dict[int, list[str]]:
    """Every problem status that the route can answer, with its codes."""
    codes = set(declared.problems)
    if declared.role is not None:
        codes.update(_NEEDS_KEY)
        codes.add("DULY-E106")  # unknown query parameters
        if declared.method != "GET":
            codes.update(_CHANGES)
        if declared.role is not Role.WORKER:
            codes.add("DULY-E411")
    if declared.path_id is not None:
        codes.add("DULY-E201")  # what cannot be a segment of a path is no path
        codes.add("DULY-E114" if any(part in declared.path for part in ("{name}", "{tenant}", "{pool}")) else "DULY-E111")
    if declared.query is not None:
        codes.add("DULY-E110")
    if declared.body is not None:
        codes.update(_TAKES_FORM if declared.form else _TAKES_BODY)
    if declared.idempotent:
        codes.update(("DULY-E116", "DULY-E207"))
    if _is_recorded(declared):
        codes.update(("DULY-E271", "DULY-E272"))
    found: dict[int, list[str]] = {}
    for code in sorted(codes):
        found.setdefault(CODES[code].status, []).append(code)
    return dict(sorted(found.items()))


def _operation(declared: Route, schemas: Mapping[Any, Schema]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": declared.name,
        "summary": declared.handle.__doc__ or "",
        "tags": [_tag(declared)],
        "parameters": _parameters(declared),
        "responses": _responses(declared, schemas),
    }
    if declared.role is None:
        operation["security"] = []
    else:
        operation["description"] = f"Needs a key of the role {_ROLES[declared.role]}."
    if declared.body is not None:
        content: dict[str, Any] = {"schema": schemas[declared.body]}
        examples = declared.examples or {"least": least_of(declared.body)}
        content["examples"] = {name: {"value": value} for name, value in examples.items()}
        operation["requestBody"] = {"required": not declared.body_optional, "content": {FORM if declared.form else JSON: content}}
    return operation


def _tag(declared: Route) -> str:
    if declared.path in ("/login", "/logout", "/v1/session"):
        return "sessions"
    if declared.role is None or declared.path == "/metrics":
        return "health"
    return declared.path.split("/")[2].partition(":")[0].partition(".")[0]


def _parameters(declared: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in _PATH_IDS.items()
        if f"{{{name}}}" in declared.path
    ]
    if declared.query is not None:
        (_,), defined = msgspec.json.schema_components([declared.query], ref_template=REF)
        for name, schema in defined[declared.query.__name__]["properties"].items():
            given = _not_null(schema)
            described = {"description": given.pop("description")} if "description" in given else {}
            style = {"style": "deepObject", "explode": True} if given.get("type") == "object" else {}
            found.append({"name": name, "in": "query", "required": False, **described, **style, "schema": given})
    if declared.idempotent:
        found.append(_IDEMPOTENCY_KEY)
    headers = {**declared.request_headers, **(attribution.HEADERS if _is_recorded(declared) else {})}
    found.extend({"name": name, "in": "header", "required": False, **about} for name, about in headers.items())
    return found


def _is_recorded(declared: Route) -> bool:
    """Whether the caller may say something for the audit trail."""
    return declared.method != "GET" and declared.role is not None


def _not_null(schema: Schema) -> Schema:
    """A query parameter is there or not there; it cannot be null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if not options:
        return dict(schema)
    (option,) = options
    return dict(option)


def _responses(declared: Route, schemas: Mapping[Any, Schema]) -> dict[str, Any]:
    answer = schemas.get(declared.answer, {})
    content: dict[str, Any] = {}
    if declared.answer not in (None, dict[str, Any]):
        content[JSON] = {"schema": answer, "example": sample_of(declared.answer)}
    elif declared.answer is not None:
        content[JSON] = {"schema": answer}
    if declared.text:
        content[declared.media] = {"schema": {"type": "string"}, "example": declared.text}
    if declared.html:
        content["text/html"] = {"schema": {"type": "string"}, "example": "<!doctype html><title>Duly</title>…"}
    if declared.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}, "example": _EVENTS}
    headers = {
        name: {"description": text, "required": True, "schema": {"type": "string"}} for name, text in declared.response_headers.items()
    }
    if declared.role not in (None, Role.WORKER):
        headers |= _RATE_LIMIT
    success: dict[str, Any] = {"description": declared.handle.__doc__ or "", **({"content": content} if content else {})}
    responses: dict[str, Any] = {str(declared.status): {**success, "headers": headers} if headers else success}
    for status, text in declared.also.items():
        responses[str(status)] = {"description": text} if status in (204, 304) else {"description": text, "content": content}
    for status, codes in statuses(declared).items():
        responses[str(status)] = _problem_response(status, codes, schemas[Problem])
    return responses


def _problem_response(status: int, codes: Sequence[str], schema: Schema) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": "; ".join(f"{code}: {CODES[code].title}" for code in codes),
        "content": {MEDIA_TYPE.decode(): {"schema": schema, "example": sample_problem(codes[0])}},
    }
    if status == 401:
        response["headers"] = {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}}
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"required": True, "description": "Seconds.", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
        }
    return response


def _refined(components: Mapping[str, Schema]) -> dict[str, Schema]:
    """The structs' schemas with what only the document can say."""
    found: dict[str, Schema] = {}
    for name, schema in components.items():
        properties = {
            key: {"$ref": REF.format(name="AnyJson")} if name.endswith("Shape") and value == {} else value
            for key, value in schema.get("properties", {}).items()
        }
        found[name] = {**schema, **({"properties": properties} if properties else {}), **_TOGETHER.get(name, {})}
    if "JobShape" in found:
        # Beside steps a target names the pool alone; that its other keys are missing is no fault then.
        pool = found["TargetShape"]["properties"]["pool"]
        of_steps = {"type": "object", "properties": {"pool": pool}, "additionalProperties": False, "title": "The pool of a workflow"}
        found["JobShape"]["properties"]["target"]["anyOf"].append(of_steps)
    found["AnyJson"] = _ANY_JSON
    return dict(sorted(found.items()))
