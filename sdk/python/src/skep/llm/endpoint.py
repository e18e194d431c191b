"""Where models are reached, and how one request goes there: plain HTTP of the standard library.

**Invariant.** A cancelled request closes its connection, so the gateway stops paying for an answer that nobody reads. The key goes
into a header, never into an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from skep.llm.dialect import FORMATS, Dialect

ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
"""The largest response that is read: no model writes as much, so it is not one."""

ANSWER_SECONDS_MAX: Final = 600.0
"""How long a response may take: what the gateway itself waits for a provider."""

RETRIES: Final = 2
"""How often a request is sent again that was told to come later. The gateway has waited before it says so."""

RETRY_SECONDS_MAX: Final = 30.0
LATER: Final = frozenset({429, 503, 529})


class ModelError(RuntimeError):
    """A model that did not answer: the gateway refused, or nobody was there. `status` is the HTTP status, 0 without one."""

    def __init__(self, message: str, status: int = 0, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True)
class Endpoint:
    """An address that speaks one dialect."""

    dialect: Dialect
    base_url: str
    key: str = field(repr=False)

    @staticmethod
    def find(dialect: Dialect | None = None, environment: Mapping[str, str] | None = None) -> Endpoint:
        """The endpoint that the environment names; without a dialect the first of `OPENAI_`, `ANTHROPIC_` and `OPENROUTER_` with a key."""
        variables = os.environ if environment is None else environment
        for one, prefix, default in PLACES:
            key = variables.get(f"{prefix}_API_KEY", "")
            if key and dialect in (None, one):
                return Endpoint(one, variables.get(f"{prefix}_BASE_URL") or default, key)
        names = ", ".join(f"{prefix}_API_KEY" for one, prefix, _ in PLACES if dialect in (None, one))
        raise ModelError(f"no model can be reached: none of {names} is set")

    @staticmethod
    def of_key(key: str, environment: Mapping[str, str] | None = None) -> Endpoint:
        """The chat endpoint that a key belongs to; a key that no variable holds is OpenRouter's, as HiveKernel's agents have it."""
        variables = os.environ if environment is None else environment
        chat = [(prefix, default) for dialect, prefix, default in PLACES if dialect == "chat"]
        prefix, default = next((one for one in chat if variables.get(f"{one[0]}_API_KEY") == key), chat[-1])
        return Endpoint("chat", variables.get(f"{prefix}_BASE_URL") or default, key)

    async def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Sends one request and returns the response's JSON."""
        wire = FORMATS[self.dialect]
        headers = {"content-type": "application/json", "accept": "application/json", **wire.headers(self.key)}
        data = json.dumps(body).encode()
        for attempt in range(RETRIES + 1):
            status, retry_after, answer = await exchange(f"{self.base_url.rstrip('/')}{wire.path}", headers, data)
            if status in LATER and attempt < RETRIES and retry_after is not None and retry_after <= RETRY_SECONDS_MAX:
                await asyncio.sleep(retry_after)
                continue
            return read_answer(status, answer)
        raise AssertionError("the last attempt returns or raises")


PLACES: Final[tuple[tuple[Dialect, str, str], ...]] = (
    ("chat", "OPENAI", "https://api.openai.com/v1"),
    ("anthropic", "ANTHROPIC", "https://api.anthropic.com"),
    ("chat", "OPENROUTER", "https://openrouter.ai/api/v1"),
)


def read_answer(status: int, answer: bytes) -> dict[str, Any]:
    """The JSON of a response, or the error that it tells."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        parsed = None
    told = parsed.get("error") if isinstance(parsed, dict) else None
    if status != http.HTTPStatus.OK or told:
        kind, message = "", answer[:500].decode(errors="replace")
        if isinstance(told, dict):
            kind, message = str(told.get("type") or told.get("code") or ""), str(told.get("message") or message)
        elif isinstance(told, str):
            message = told
        raise ModelError(f"the model was not asked or did not answer ({status}): {message}", status, kind)
    if not isinstance(parsed, dict):
        raise ModelError("the response is no JSON object", status)
    return parsed


async def exchange(url: str, headers: Mapping[str, str], data: bytes) -> tuple[int, float | None, bytes]:
    """One request in a thread of its own: status, seconds of `retry-after`, and the response."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[int, float | None, bytes]] = loop.create_future()
    connection = connect(url)
    path = urlsplit(url).path
    is_abandoned = threading.Event()
    opened: list[socket.socket] = []

    def settle(result: tuple[int, float | None, bytes] | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        elif result is not None:
            done.set_result(result)

    def work() -> None:
        try:
            connection.connect()
            # The connection forgets its socket once a response ends with it; whoever abandons the request needs it still.
            opened.append(connection.sock)
            if is_abandoned.is_set():
                return
            connection.request("POST", path, body=data, headers=dict(headers))
            with connection.getresponse() as response:
                answer = response.read(ANSWER_BYTES_MAX + 1)
            if len(answer) > ANSWER_BYTES_MAX:
                raise ModelError(f"the response has more than {ANSWER_BYTES_MAX} bytes", response.status)  # noqa: TRY301
            outcome: tuple[int, float | None, bytes] | None = (response.status, seconds(response.getheader("retry-after")), answer)
            failure: Exception | None = None
        except ModelError as error:
            outcome, failure = None, error
        except (OSError, http.client.HTTPException) as error:
            outcome, failure = None, ModelError(f"no answer from {urlsplit(url).netloc}: {str(error) or type(error).__name__}")
        finally:
            connection.close()
        # A loop that was closed meanwhile has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, outcome, failure)

    # A daemon: a process that is to end does not wait for a model.
    threading.Thread(target=work, name="skep-model-request", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        is_abandoned.set()
        # A read of a socket that was shut returns at once.
        for one in opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        raise


def connect(url: str) -> http.client.HTTPConnection:
    """A connection to the address, through a proxy of the environment unless it is on this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise ModelError(f"`{url}` is no address of a model")
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    proxy = None if is_here or urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(parts.scheme)
    if not is_tls:
        if not is_here:
            raise ModelError(f"`{url}` would send the key unencrypted to another machine")
        return http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS_MAX)
    context = ssl.create_default_context()
    if proxy is None:
        return http.client.HTTPSConnection(host, port, timeout=ANSWER_SECONDS_MAX, context=context)
    through = urlsplit(proxy)
    connection = http.client.HTTPSConnection(through.hostname or "", through.port or 8080, timeout=ANSWER_SECONDS_MAX, context=context)
    connection.set_tunnel(host, port)
    return connection


def seconds(retry_after: str | None) -> float | None:
    """The seconds of a `retry-after`. A date counts as none: the gateway sends seconds."""
    try:
        return max(0.0, float(retry_after)) if retry_after is not None else None
    except ValueError:
        return None
