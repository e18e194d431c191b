"""One kernel for each test of the suite."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from contract.kernels import SKEP_BIN, Kernel, real_kernel, small_kernel


@pytest_asyncio.fixture
async def kernel() -> AsyncIterator[Kernel]:
    async with real_kernel() if SKEP_BIN else small_kernel() as one:
        yield one
