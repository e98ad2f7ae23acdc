"""An example of every answer, made from the struct that it is: so a route that is declared has one, and it cannot be out of date."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, inspect

from duly.domain.codes import CODES
from duly.http.problems import TYPE_PREFIX

_MOMENT = "2026-03-08T07:00:00Z"
_BY_NAME: dict[str, Any] = {
    "jobId": "job_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d",
    "executionId": "run_0198c2d5b7f87a1c8d2e3f4a5b6c7d8e",
    "sample": "run_0198c2d5b7f87a1c8d2e3f4a5b6c7d8e",
    "batchId": "batch_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d",
    "replayedAs": "run_0198c2d5c0007a1c8d2e3f4a5b6c7d8e",
    "workerId": "17",
    "keyId": "9f86d081884c7d65",
    "linkId": "9f86d081884c7d65",
    "incidentId": "inc_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d",
    "name": "daily-invoices",
    "jobName": "daily-invoices",
    "pool": "default",
    "handler": "generate_invoices",
    "handlers": ["generate_invoices"],
    "schedule": "0 3 * * *",
    "words": "Every day at 03:00",
    "timezone": "Europe/Berlin",
    "tenant": "default",
    "trigger": "schedule",
    "secret": "duly_…",
    "status": "ok",
    "cause": "8f14e45fceea167a",
    "payload": {"customer": 42},
    "result": {"rows": 12},
    "error": None,
    "from": _MOMENT,
    "until": "2026-03-09T07:00:00Z",
    "first": _MOMENT,
    "last": _MOMENT,
    "local": "2026-03-08T03:00:00-04:00",
}
_DEEPEST = 8


def sample_of(kind: Any) -> Any:
    """An example of what this type looks like on the wire."""
    return _sample(inspect.type_info(kind), "", 0)


def least_of(kind: type[Struct]) -> dict[str, Any]:
    """The least that a body of this type may be: what is needed, and nothing else."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: _sample(field.type, field.encode_name, 1) for field in info.fields if field.required}


def sample_problem(code: str) -> dict[str, Any]:
    """An example of a problem document."""
    about = CODES[code]
    return {
        "type": TYPE_PREFIX + code,
        "title": about.title,
        "status": about.status,
        "code": code,
        "detail": f"{about.title}.",
        "field": None,
        "hint": about.fix,
        "requestId": "req_5f0c3a1b2d4e6f708192a3b4",
    }


def _sample(kind: inspect.Type, name: str, depth: int) -> Any:
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=said):
            # Who has said what a text looks like knows it better than its name does.
            examples = (said or {}).get("examples")
            return examples[0] if examples and isinstance(inner, inspect.StrType) else _sample(inner, name, depth)
        case inspect.StructType(fields=fields):
            if depth > _DEEPEST:
                return {}
            return {field.encode_name: _sample(field.type, field.encode_name, depth + 1) for field in fields}
        case inspect.UnionType(types=types):
            if name in _BY_NAME and _fits(_BY_NAME[name], types):
                return _BY_NAME[name]
            return None if any(isinstance(one, inspect.NoneType) for one in types) else _sample(types[0], name, depth)
        case inspect.ListType(item_type=item):
            one = _BY_NAME.get(name)
            return one if isinstance(one, list) else [] if depth > _DEEPEST or name == "nextCursor" else [_sample(item, name, depth + 1)]
        case inspect.DictType():
            return {}
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.StrType():
            known = _BY_NAME.get(name)
            return known if isinstance(known, str) else _MOMENT if name == "at" or name.endswith("At") else name or "text"
        case inspect.DateTimeType():
            return _MOMENT
        case inspect.DateType():
            return "2026-12-25"
        case inspect.BoolType():
            return False
        case inspect.IntType():
            known = _BY_NAME.get(name)
            return known if isinstance(known, int) else 1
        case inspect.FloatType():
            return 1.0
        case _:
            return _BY_NAME.get(name)


def _fits(value: Any, types: tuple[inspect.Type, ...]) -> bool:
    for one in types:
        inner = one.type if isinstance(one, inspect.Metadata) else one
        if isinstance(value, str) and isinstance(inner, inspect.StrType):
            return True
        if value is None and isinstance(inner, inspect.NoneType):
            return True
    return False
