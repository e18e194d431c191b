"""Tools: typed async functions that a model may call.

The signature is the schema. `Annotated[int, "what it means"]` describes a parameter; the docstring describes the tool.
**Invariant.** A function runs only with arguments that fit its annotations: a model's input is somebody else's text.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import re
import types
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

SCALARS: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


class ToolInputError(ValueError):
    """Arguments that do not fit the tool. The model is told, and may try again."""


@dataclass(frozen=True)
class Tool:
    """A function with the schema that models are shown."""

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Callable[..., Awaitable[object]]
    hints: Mapping[str, Any]
    required: frozenset[str]

    async def __call__(self, *args: Any, **named: Any) -> object:
        return await self.run(*args, **named)

    async def call(self, arguments: object) -> str:
        """Runs the function with a model's arguments and returns its result as text."""
        if not isinstance(arguments, dict):
            raise ToolInputError("the arguments are no object")
        if unknown := sorted(set(arguments) - set(self.hints)):
            raise ToolInputError(f"there is no parameter {', '.join(f'`{name}`' for name in unknown)}")
        if missing := sorted(self.required - set(arguments)):
            raise ToolInputError(f"missing: {', '.join(f'`{name}`' for name in missing)}")
        fitted = {name: fit(value, self.hints[name], name) for name, value in arguments.items()}
        return as_text(await self.run(**fitted))


def tool(function: Callable[..., Awaitable[object]]) -> Tool:
    """Makes a tool of an async function."""
    name = getattr(function, "__name__", "")
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"`{name}` is not an async function")
    if not NAME.fullmatch(name):
        raise ValueError(f"`{name}` is no name for a tool: letters, digits, `_` and `-`, at most 64")
    hints: dict[str, Any] = {}
    required: set[str] = set()
    annotations = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"`{name}`: a model cannot fill `{parameter}`")
        if parameter.name == "self" and "self" not in annotations:
            raise TypeError(f"`{name}` is a method: decorate a function, or `tool(agent.method)`")
        if parameter.name not in annotations:
            raise TypeError(f"`{name}`: `{parameter.name}` has no annotation")
        hints[parameter.name] = annotations[parameter.name]
        if parameter.default is parameter.empty:
            required.add(parameter.name)
    schema = {
        "type": "object",
        "properties": {parameter: schema_of(hint) for parameter, hint in hints.items()},
        "required": sorted(required),
        "additionalProperties": False,
    }
    description = inspect.cleandoc(function.__doc__ or "")
    return Tool(name, description, schema, function, hints, frozenset(required))


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON schema of an annotation. One that has none raises `TypeError`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        described = next((extra for extra in args[1:] if isinstance(extra, str)), None)
        return {**schema_of(args[0]), **({"description": described} if described else {})}
    if hint in SCALARS:
        return {"type": SCALARS[hint]}
    if hint is Any:
        return {}
    if origin is Literal:
        return {"enum": list(args)}
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if origin in (list, tuple, set) and len([arg for arg in args if arg is not Ellipsis]) == 1:
        return {"type": "array", "items": schema_of(args[0]), **({"uniqueItems": True} if origin is set else {})}
    if origin is dict and args and args[0] is str:
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(arg) for arg in args]}
    if inspect.isclass(hint) and dataclasses.is_dataclass(hint):
        fields = field_hints(hint)
        return {
            "type": "object",
            "properties": {name: schema_of(inner) for name, inner in fields.items()},
            "required": sorted(required_fields(hint)),
            "additionalProperties": False,
        }
    raise TypeError(f"a model cannot be shown the type {hint}")


def fit(value: object, hint: Any, where: str) -> Any:
    """The value as the annotation wants it, or `ToolInputError` that says where it does not fit."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return fit(value, args[0], where)
    if hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in SCALARS:
        if type(value) is not hint:
            raise ToolInputError(f"`{where}` is not a {SCALARS[hint]}")
        return value
    if origin is Literal:
        if not any(type(value) is type(arg) and value == arg for arg in args):
            raise ToolInputError(f"`{where}` is none of {', '.join(map(str, args))}")
        return value
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            raise ToolInputError(f"`{where}` is none of {', '.join(str(member.value) for member in hint)}") from None
    if origin in (list, tuple, set):
        if not isinstance(value, list):
            raise ToolInputError(f"`{where}` is not an array")
        return origin(fit(item, args[0], f"{where}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise ToolInputError(f"`{where}` is not an object")
        return {key: fit(item, args[1], f"{where}.{key}") for key, item in value.items()}
    if origin in (Union, types.UnionType):
        return fit_one(value, args, where)
    return fit_fields(value, hint, where)


def fit_one(value: object, hints: tuple[Any, ...], where: str) -> Any:
    reasons = []
    for hint in hints:
        try:
            return fit(value, hint, where)
        except ToolInputError as error:
            reasons.append(str(error))
    raise ToolInputError("; ".join(reasons))


def fit_fields(value: object, hint: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ToolInputError(f"`{where}` is not an object")
    fields = field_hints(hint)
    if wrong := sorted((set(value) - set(fields)) | (required_fields(hint) - set(value))):
        raise ToolInputError(f"`{where}` has wrong or missing members: {', '.join(wrong)}")
    return hint(**{name: fit(item, fields[name], f"{where}.{name}") for name, item in value.items()})


def field_hints(hint: Any) -> dict[str, Any]:
    hints = get_type_hints(hint, include_extras=True)
    return {one.name: hints[one.name] for one in dataclasses.fields(hint) if one.init}


def required_fields(hint: Any) -> set[str]:
    return {
        one.name
        for one in dataclasses.fields(hint)
        if one.init and one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    }


def as_text(result: object) -> str:
    """A result as a model reads it: text as it is, everything else as JSON."""
    if isinstance(result, str):
        return result
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = dataclasses.asdict(result)
    return json.dumps(result, ensure_ascii=False, default=str)
