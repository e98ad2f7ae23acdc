"""A handler's signature as a type: payloads are checked against it when they are enqueued and when they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from duly.domain.errors import Invalid
from duly.domain.secrets import MARK, Secret, is_marked
from duly.domain.signature import Takes
from duly.sdk.context import Context
from duly.sdk.models import fields_of, model_of, plain


class Arguments:
    """Binds calls to payloads and payloads to calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        self.takes_context: str | None = None
        self._fields: list[str] = []
        # Arguments that are taken from a secret unless they are given.
        self.secret_defaults: dict[str, str] = {}
        hints = _hints(function)
        fields: list[Any] = []
        annotations: dict[str, Any] = {}
        for parameter in self._signature.parameters.values():
            annotation = hints.get(parameter.name, Any)
            if annotation is Context or (annotation is Any and parameter.name == "ctx"):
                self.takes_context = parameter.name
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise _wrong(function, f"the parameter {parameter} cannot be sent as JSON", "Give every parameter a name of its own.")
            self._fields.append(parameter.name)
            annotations[parameter.name] = annotation
            if isinstance(parameter.default, Secret) and parameter.default.reference is not None:
                self.secret_defaults[parameter.name] = str(parameter.default.reference)
            if parameter.default is parameter.empty:
                fields.append((parameter.name, annotation))
            else:
                fields.append((parameter.name, annotation, _default(parameter.default)))
        # What it takes, if that is one model: callers may give its fields.
        self.model = model_of(annotations)
        try:
            self._type = msgspec.defstruct(f"{function.__name__}_arguments", fields, forbid_unknown_fields=True, kw_only=True)
            msgspec.json.Decoder(self._type, dec_hook=_decode_hook)
        except (TypeError, NameError) as error:
            raise _wrong(
                function, f"its arguments cannot be read from JSON: {error}", "Use standard types, dataclasses or msgspec.Struct."
            ) from error

    @property
    def fields(self) -> list[str]:
        """The names of what it takes, in order, but for the context."""
        return list(self._fields)

    @property
    def takes(self) -> Takes:
        """The same, and which of them have no default."""
        parameters = self._signature.parameters
        return Takes(tuple(self._fields), tuple(name for name in self._fields if parameters[name].default is inspect.Parameter.empty))

    def of_call(self, call: Any) -> str:
        """The payload of one call of many: its keyword arguments, or the model that the handler takes."""
        if self.model is not None and isinstance(call, self.model.kind):
            return self.to_payload((call,), {})
        return self.to_payload((), dict(call))

    def owns(self, name: str, args: tuple[Any, ...]) -> bool:
        """Whether a keyword of this name is an argument of the handler, or a field of its model where that is not given whole."""
        return name in self._fields or (self.model is not None and not args and name in self.model.fields)

    def to_payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The JSON of a call. Raises Invalid (DULY-E117), naming the argument, when it does not fit the signature."""
        if len(args) > len(self._fields):
            raise Invalid("DULY-E117", f"{self._function.__name__} takes {len(self._fields)} arguments, {len(args)} were given.")
        if self.model is not None and not args:
            kwargs = self.model.wrapped(kwargs)
        given = dict(zip(self._fields, args, strict=False))
        if both := given.keys() & kwargs.keys():
            raise Invalid("DULY-E117", f"the argument {min(both)!r} is given twice.", field=min(both))
        return _payload(self._function, given | kwargs, self._type)

    def check(self, payload: Any) -> Any:
        """The arguments as the function takes them. Raises Invalid (DULY-E117)."""
        return _converted(self._function, {} if payload is None else payload, self._type)

    def bind(self, payload: Any, context: Context) -> dict[str, Any]:
        """Keyword arguments for the call."""
        bound = msgspec.structs.asdict(self.check(payload))
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

    def owns(self, name: str, args: tuple[Any, ...]) -> bool:
        """Whether a keyword of this name is a field of the item, which was not given whole."""
        fields = fields_of(plain(self._type))
        return not args and (fields is None or name in fields)

    def of_call(self, call: Any) -> str:
        """The payload of one call of many: the item itself."""
        return self.to_payload((call,), {})

    def to_payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The JSON of one item, given as it is or by its fields. Raises Invalid (DULY-E117) when it is none."""
        if len(args) + bool(kwargs) != 1:
            raise Invalid("DULY-E117", f"{self._function.__name__} takes one item at a time, or the fields of one.")
        return _payload(self._function, args[0] if args else kwargs, self._type)

    def check(self, payload: Any) -> Any:
        """The item as the function takes it. Raises Invalid (DULY-E117)."""
        return _converted(self._function, payload, self._type)

    def bind(self, items: list[Any], context: Context) -> dict[str, Any]:
        """Keyword arguments for the call; the items have been checked."""
        bound: dict[str, Any] = {self._name: items}
        if self.takes_context is not None:
            bound[self.takes_context] = context
        return bound


def _payload(function: Callable[..., Any], value: Any, kind: Any) -> str:
    """A call as JSON, checked against the handler's type. A field that is a Secret is sent as one, however it was given."""
    payload = _encoded(function, value)
    decoded, known = msgspec.json.decode(payload), dict[str, Any]()
    if is_marked(payload.decode()):
        # What a reference stands for is text, and more is not known of it here.
        decoded = _with_places(decoded, known)
    plain: list[Any] = []
    checked = _converted(function, decoded, kind, lambda type, value: _secret_or(plain, known, type, value))
    if plain:
        payload = _encoded(function, checked)
        for place, marked in known.items():
            payload = payload.replace(msgspec.json.encode(place), msgspec.json.encode(marked))
    return payload.decode()


def _with_places(value: Any, known: dict[str, Any]) -> Any:
    """The value with a text of its own in the place of each secret; `known` has what stands behind it."""
    if isinstance(value, dict):
        if MARK in value:
            place = f"secret {len(known)}"
            known[place] = value
            return place
        return {key: _with_places(item, known) for key, item in value.items()}
    return [_with_places(item, known) for item in value] if isinstance(value, list) else value


def _secret_or(plain: list[Any], known: dict[str, Any], kind: Any, value: Any) -> Any:
    if (get_origin(kind) or kind) is Secret:
        if isinstance(value, str) and value in known:
            marked = known[value][MARK]
            return Secret.named(marked) if isinstance(marked, str) else _decode_hook(kind, marked["value"])
        plain.append(value)
    return _decode_hook(kind, value)


def _encoded(function: Callable[..., Any], value: Any) -> bytes:
    try:
        payload = msgspec.json.encode(value, enc_hook=_encode_hook)
    except (TypeError, ValueError) as error:
        raise Invalid("DULY-E117", f"an argument of {function.__name__} cannot be sent as JSON: {error}.") from error
    if b"\\u0000" in payload:
        raise Invalid("DULY-E110", f"an argument of {function.__name__} contains a NUL character, which cannot be stored.")
    return payload


def _converted(function: Callable[..., Any], payload: Any, kind: Any, hook: Callable[[Any, Any], Any] | None = None) -> Any:
    try:
        return msgspec.convert(payload, kind, dec_hook=hook or _decode_hook)
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


def _decode_hook(kind: Any, value: Any) -> Any:
    if (get_origin(kind) or kind) is Secret:
        inner = get_args(kind)
        return Secret(msgspec.convert(value, inner[0], dec_hook=_decode_hook) if inner else value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind!r} is not supported")


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.to_json()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")


def _wrong(function: Callable[..., Any], message: str, hint: str) -> Invalid:
    return Invalid("DULY-E118", f"{function.__module__}.{function.__qualname__}: {message}.", hint=hint)
