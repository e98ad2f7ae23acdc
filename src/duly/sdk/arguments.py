"""A handler's signature as a type: payloads are checked against it when they are enqueued and when they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from duly.domain.errors import Invalid
from duly.sdk.context import Context


class Arguments:
    """Binds calls to payloads and payloads to calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        self.takes_context: str | None = None
        self._fields: list[str] = []
        hints = _hints(function)
        fields: list[Any] = []
        for parameter in self._signature.parameters.values():
            annotation = hints.get(parameter.name, Any)
            if annotation is Context or (annotation is Any and parameter.name == "ctx"):
                self.takes_context = parameter.name
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise _wrong(function, f"the parameter {parameter} cannot be sent as JSON", "Give every parameter a name of its own.")
            self._fields.append(parameter.name)
            if parameter.default is parameter.empty:
                fields.append((parameter.name, annotation))
            else:
                fields.append((parameter.name, annotation, _default(parameter.default)))
        try:
            self._type = msgspec.defstruct(f"{function.__name__}_arguments", fields, forbid_unknown_fields=True, kw_only=True)
            msgspec.json.Decoder(self._type, dec_hook=_decode_hook)
        except (TypeError, NameError) as error:
            raise _wrong(
                function, f"its arguments cannot be read from JSON: {error}", "Use standard types, dataclasses or msgspec.Struct."
            ) from error

    def of_call(self, call: Any) -> str:
        """The payload of one call of many: its keyword arguments."""
        return self.to_payload((), dict(call))

    def to_payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The JSON of a call. Raises Invalid (DULY-E117), naming the argument, when it does not fit the signature."""
        if len(args) > len(self._fields):
            raise Invalid("DULY-E117", f"{self._function.__name__} takes {len(self._fields)} arguments, {len(args)} were given.")
        given = dict(zip(self._fields, args, strict=False))
        if both := given.keys() & kwargs.keys():
            raise Invalid("DULY-E117", f"the argument {min(both)!r} is given twice.", field=min(both))
        payload = _encoded(self._function, given | kwargs)
        self.check(msgspec.json.decode(payload))
        return payload.decode()

    def check(self, payload: Any) -> Any:
        """The arguments as the function takes them. Raises Invalid (DULY-E117)."""
        return _converted(self._function, {} if payload is None else payload, self._type)

    def bind(self, payload: Any, context: Context) -> dict[str, Any]:
        """Keyword arguments for the call."""
        checked = self.check(payload)
        bound = {name: getattr(checked, name) for name in self._fields}
        if self.takes_context is not None:
            bound[self.takes_context] = context
        return bound


class BatchArguments:
    """The same for a handler that takes a list: each payload is one item of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.takes_context: str | None = None
        hints = _hints(function)
        items: list[tuple[str, Any]] = []
        for parameter in inspect.signature(function).parameters.values():
            annotation = hints.get(parameter.name, Any)
            if annotation is Context or (annotation is Any and parameter.name == "ctx"):
                self.takes_context = parameter.name
            else:
                items.append((parameter.name, annotation))
        if len(items) != 1 or (items[0][1] is not Any and get_origin(items[0][1]) not in (list, Sequence)):
            raise _wrong(function, "a batch handler takes a list and nothing else", "For example: async def f(ctx, items: list[Item]).")
        self._name, annotation = items[0]
        self._type: Any = (get_args(annotation) or (Any,))[0]
        try:
            msgspec.json.Decoder(self._type, dec_hook=_decode_hook)
        except (TypeError, NameError) as error:
            raise _wrong(
                function, f"its items cannot be read from JSON: {error}", "Use standard types, dataclasses or msgspec.Struct."
            ) from error

    def of_call(self, call: Any) -> str:
        """The payload of one call of many: the item itself."""
        return self.to_payload((call,), {})

    def to_payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The JSON of one item, given as it is or by its fields. Raises Invalid (DULY-E117) when it is none."""
        if len(args) + bool(kwargs) != 1:
            raise Invalid("DULY-E117", f"{self._function.__name__} takes one item at a time, or the fields of one.")
        payload = _encoded(self._function, args[0] if args else kwargs)
        self.check(msgspec.json.decode(payload))
        return payload.decode()

    def check(self, payload: Any) -> Any:
        """The item as the function takes it. Raises Invalid (DULY-E117)."""
        return _converted(self._function, payload, self._type)

    def bind(self, items: list[Any], context: Context) -> dict[str, Any]:
        """Keyword arguments for the call; the items have been checked."""
        bound: dict[str, Any] = {self._name: items}
        if self.takes_context is not None:
            bound[self.takes_context] = context
        return bound


def _encoded(function: Callable[..., Any], value: Any) -> bytes:
    try:
        payload = msgspec.json.encode(value, enc_hook=_encode_hook)
    except (TypeError, ValueError) as error:
        raise Invalid("DULY-E117", f"an argument of {function.__name__} cannot be sent as JSON: {error}.") from error
    if b"\\u0000" in payload:
        raise Invalid("DULY-E110", f"an argument of {function.__name__} contains a NUL character, which cannot be stored.")
    return payload


def _converted(function: Callable[..., Any], payload: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(payload, kind, dec_hook=_decode_hook)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`") or None
        raise Invalid("DULY-E117", f"{function.__name__}: {message}.", field=field) from error


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise _wrong(
            function, f"an annotation cannot be resolved: {error}", "Import it at the top of the module, not under TYPE_CHECKING."
        ) from error


def _default(value: Any) -> Any:
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=lambda: type(value)(value))
    return msgspec.field(default=value)


def _decode_hook(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind!r} is not supported")


def _encode_hook(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")


def _wrong(function: Callable[..., Any], message: str, hint: str) -> Invalid:
    return Invalid("DULY-E118", f"{function.__module__}.{function.__qualname__}: {message}.", hint=hint)
