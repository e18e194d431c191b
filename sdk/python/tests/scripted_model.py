"""A scripted model for tests: an HTTP server that answers in both dialects, by rules or by a script file.

Script files are a part of those of `docs/models.md` (`on`, `then`, `say`, `call`), so that the examples' file works with the
gateway too. Nothing is remembered between requests: the request alone decides.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]


@dataclass
class Said:
    """One answer of the model: text and calls, or an error, or anything else as it is."""

    text: str = ""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    status: int = 200
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    usage: tuple[int, int] = (10, 5)


Rule = Callable[[Json], Said]


class ScriptedModel:
    """Answers on a port of the loopback until it is closed."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.requests: list[tuple[str, dict[str, str], Json]] = []
        self.hold: threading.Event | None = None
        """While it is set to an event, answers wait for it."""
        self.broken = threading.Event()
        """Set when a client hung up on a held answer."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                if model.hold is not None:
                    model.wait(self.connection.recv)
                try:
                    said = model.rule(body)
                except Exception as error:  # a mistake of the test, told to the test
                    said = Said(f"the rule failed: {error!r}", status=500)
                data = said.raw if said.raw is not None else json.dumps(written(self.path, said)).encode()
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables as a room has them."""
        key = "sk-skep-test"
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": key,
        }

    def wait(self, receive: Callable[[int], bytes]) -> None:
        assert self.hold is not None
        if receive(1) == b"":
            self.broken.set()
        self.hold.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def written(path: str, said: Said) -> Json:
    """The answer in the format of the path that was asked."""
    calls = list(enumerate(said.calls))
    if said.status != 200:
        return {"error": {"type": "scripted", "message": said.text}}
    if path.endswith("/messages"):
        blocks: list[Json] = [{"type": "text", "text": said.text}] if said.text else []
        blocks += [{"type": "tool_use", "id": f"toolu-{at}", "name": name, "input": given} for at, (name, given) in calls]
        return {
            "role": "assistant",
            "content": blocks,
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {"input_tokens": said.usage[0], "output_tokens": said.usage[1]},
        }
    message: Json = {"role": "assistant", "content": said.text or None}
    if calls:
        message["tool_calls"] = [
            {"id": f"call-{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for at, (name, given) in calls
        ]
    return {
        "choices": [{"message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": said.usage[0], "completion_tokens": said.usage[1]},
    }


def is_prompt(message: Json) -> bool:
    """Whether a person wrote it: in Anthropic's format results of calls come from the user too."""
    return message["role"] == "user" and isinstance(message["content"], str)


def by_script(path: Path) -> Rule:
    """Answers by a script file."""
    talks: list[tuple[str, list[Said]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "on":
            talks.append((rest.strip('"'), [Said()]))
        elif word == "then":
            talks[-1][1].append(Said())
        elif word == "say":
            talks[-1][1][-1].text = rest
        elif word == "call":
            name, *pairs = shlex.split(rest)
            talks[-1][1][-1].calls.append((name, dict(pair.split("=", 1) for pair in pairs)))
        else:
            raise ValueError(f"`{word}` is no word of this part of the format")

    def rule(body: Json) -> Said:
        messages = body["messages"]
        for at in range(len(messages) - 1, -1, -1):
            if not is_prompt(messages[at]):
                continue
            for text, answers in talks:
                if text in messages[at]["content"]:
                    turn = sum(1 for message in messages[at:] if message["role"] == "assistant")
                    return answers[turn] if turn < len(answers) else Said("the script has no more answers")
        return Said("no conversation of the script matches", status=400)

    return rule
