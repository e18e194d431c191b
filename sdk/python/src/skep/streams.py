"""Streams of bytes between an agent and its parent or child.

Both open it, by the other's pid and the same name; the kernel joins them. It holds a few pieces of each direction and no more:
whoever writes waits for whoever reads. The stream ends with either end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Final, Self

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import BytesValue

from skep.limits import STREAM_CHUNK_BYTES_MAX
from skep.route import SyscallError

METHOD: Final = "/skep.tree.ByteStreams/Open"
PEER_HEADER: Final = "x-skep-peer"
STREAM_HEADER: Final = "x-skep-stream"
WAIT_HEADER: Final = "x-skep-wait"

# A stream that is not read fills its window; on a connection of its own it holds up nothing else.
OWN_CONNECTION: Final = ("grpc.use_local_subchannel_pool", 1)


class ByteStream:
    """One end of a stream. `async with` closes it; iterating reads to the end of what the other writes."""

    def __init__(self, channel: grpc.aio.Channel, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._channel = channel
        self._call = call
        self._has_finished = False
        self._is_over = False

    @classmethod
    async def open(
        cls,
        connect: Callable[..., grpc.aio.Channel],
        metadata: tuple[tuple[str, str], ...],
        pid: int,
        name: str,
        wait_seconds: int | None = None,
    ) -> Self:
        channel = connect(OWN_CONNECTION)
        method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD, packed, unpacked)
        headers = [*metadata, (PEER_HEADER, str(pid)), (STREAM_HEADER, name)]
        if wait_seconds is not None:
            headers.append((WAIT_HEADER, str(wait_seconds)))
        call = method(metadata=tuple(headers))
        try:
            # Headers come when the other end is there; a refusal comes as the end of the call.
            await call.initial_metadata()
            refusal = await refusal_of(call) if call.done() else None
        except grpc.aio.AioRpcError as error:
            refusal = broken("open_stream", error)
        except BaseException:
            call.cancel()
            await channel.close()
            raise
        if refusal is not None:
            await channel.close()
            raise refusal
        return cls(channel, call)

    async def write(self, data: bytes) -> None:
        """Writes all of it. Waits as long as the other end does not read."""
        view = memoryview(data)
        for start in range(0, len(view), STREAM_CHUNK_BYTES_MAX):
            try:
                await self._call.write(bytes(view[start : start + STREAM_CHUNK_BYTES_MAX]))
            except grpc.aio.AioRpcError as error:
                raise broken("stream", error) from None

    async def finish(self) -> None:
        """Says that there is no more to read for the other end. Reading goes on."""
        if not self._has_finished:
            self._has_finished = True
            await self._call.done_writing()

    async def read(self) -> bytes:
        """The next piece, of any size; empty when the other end has finished."""
        if self._is_over:
            return b""
        try:
            piece = await self._call.read()
        except grpc.aio.AioRpcError as error:
            self._is_over = True
            raise broken("stream", error) from None
        # An empty piece says that the other end has finished; the call itself ends when both have.
        if not isinstance(piece, bytes) or not piece:
            self._is_over = True
            return b""
        return piece

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        while piece := await self.read():
            yield piece

    async def close(self) -> None:
        """Leaves the stream. Where both ends have finished that is its end, and else it is broken off for the other."""
        if self._has_finished and self._is_over:
            await self._call.code()
        else:
            self._call.cancel()
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def packed(piece: bytes) -> bytes:
    return BytesValue(value=piece).SerializeToString()


def unpacked(data: bytes) -> bytes:
    return BytesValue.FromString(data).value


async def refusal_of(call: grpc.aio.StreamStreamCall[bytes, bytes]) -> SyscallError:
    code = (await call.code()).name
    return SyscallError("open_stream", await call.details() or code, code)


def broken(name: str, error: grpc.aio.AioRpcError) -> SyscallError:
    code = error.code().name
    return SyscallError(name, error.details() or code, code)
