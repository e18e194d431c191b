"""Runs one agent under the kernel: `python -m skep.runner --agent module:Class --core ADDRESS`.

It binds gRPC on a port of the loopback, prints `READY <port>` and serves until the kernel ends it. Exit codes: 0 after a shutdown
or the one task of the role `task`; 1 when the agent's module or its constructor failed; 2 for wrong arguments; 3 when `Init`
failed; 4 when no `Init` came; 143 after SIGTERM.
**Invariant.** Before `READY` nothing else reaches stdout: what an agent's module prints goes to stderr, so it cannot name a port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import inspect
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Final

import grpc.aio

from skep.agent import BaseAgent
from skep.core import Core
from skep.limits import INIT_SECONDS_MAX, RECEIVED_BYTES_MAX
from skep.service import AgentServer
from skep.wire import agent_pb2_grpc

logger = logging.getLogger("skep.runner")

EXIT_AGENT_BROKEN: Final = 1
EXIT_USAGE: Final = 2
EXIT_NO_INIT: Final = 4
EXIT_TERMINATED: Final = 128 + signal.SIGTERM

SERVER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    # Two agents must never share a port: the kernel would talk to the wrong one.
    ("grpc.so_reuseport", 0),
)


class UnknownAgentError(Exception):
    """What `--agent` names is not there, or is no agent."""


def load(spec: str) -> type[BaseAgent]:
    """The class that `module:Class` names."""
    module_name, colon, class_name = spec.partition(":")
    if not colon or not module_name or not class_name:
        raise UnknownAgentError(f"`{spec}` is not `module:Class`")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UnknownAgentError(f"there is no module `{module_name}` on the path {sys.path}") from error
        raise
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not inspect.isclass(found) or not issubclass(found, BaseAgent):
        raise UnknownAgentError(f"`{class_name}` of `{module_name}` is no class of an agent")
    return found


async def serve(agent: BaseAgent, core: Core, port_line: int, init_seconds: float = INIT_SECONDS_MAX) -> int:
    """Serves the kernel until the agent's process is to end, and returns its exit code."""
    loop = asyncio.get_running_loop()
    service = AgentServer(agent)
    agent._skep.core = core  # noqa: SLF001  the agent's own half of the package
    server = grpc.aio.server(options=SERVER_OPTIONS)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    terminating: set[asyncio.Task[None]] = set()

    async def terminate() -> None:
        await service.shut_down("terminated")
        service.end(EXIT_TERMINATED)

    def on_sigterm() -> None:
        terminating.add(loop.create_task(terminate()))

    def on_silence() -> None:
        if not service.was_asked:
            logger.error("no Init came within %g s", init_seconds)
            service.end(EXIT_NO_INIT)

    loop.add_signal_handler(signal.SIGTERM, on_sigterm)
    silence = loop.call_later(init_seconds, on_silence)
    os.write(port_line, f"READY {port}\n".encode())
    logger.info("serves on port %d, kernel at %s", port, core.address)
    try:
        return await service.ended
    finally:
        silence.cancel()
        # The answer to the request that ended the process is still on its way.
        await server.stop(grace=1.0)
        await core.close()


@contextlib.contextmanager
def stdout_on_stderr() -> Iterator[int]:
    """Sends what is printed to stderr, by whatever library, and gives the descriptor of the real stdout."""
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    try:
        yield real
    finally:
        sys.stdout.flush()
        os.dup2(real, 1)
        os.close(real)


async def run(spec: str, address: str, secret: str | None) -> int:
    """Loads the agent, serves it, and returns the exit code of the process."""
    with contextlib.ExitStack() as quiet:
        real = quiet.enter_context(stdout_on_stderr())
        try:
            agent = load(spec)()
            core = Core(address, secret=secret)
        except UnknownAgentError as error:
            sys.stderr.write(f"error: {error}\n")
            return EXIT_USAGE
        except Exception:
            traceback.print_exc()
            return EXIT_AGENT_BROKEN
        # Once the kernel has the port it reads stdout like stderr.
        port_line = os.dup(real)
    try:
        return await serve(agent, core, port_line)
    finally:
        os.close(port_line)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="skep.runner", description="Runs one agent under the Skep kernel.")
    parser.add_argument("--agent", required=True, metavar="MODULE:CLASS", help="the agent's class")
    parser.add_argument(
        "--core",
        default=os.environ.get("HIVEKERNEL_CORE", "127.0.0.1:50051"),
        metavar="ADDRESS",
        help="the kernel: host:port or unix:///path (HIVEKERNEL_CORE; 127.0.0.1:50051)",
    )
    parsed = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Programs that the agent starts inherit the environment; the secret is this process's alone.
    secret = os.environ.pop("SKEP_SECRET", None)
    sys.exit(asyncio.run(run(parsed.agent, parsed.core, secret)))


if __name__ == "__main__":
    main()
