"""What a maid's monitors see, and when they tell it."""

from __future__ import annotations

import asyncio

import pytest

from skep import Task
from skep.maid import QUIET_LOOKS, Monitor, disk_percent, memory_percent


def test_memory_is_what_nobody_can_have() -> None:
    assert memory_percent("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n") == 75.0


def test_a_disk_has_a_percentage() -> None:
    assert 0.0 < disk_percent("/") < 100.0


class Told(Monitor):
    what = "memory"

    def __init__(self, seen: list[float]) -> None:
        self.seen = seen
        self.told: list[str] = []

    def look(self) -> float:
        if not self.seen:
            raise EOFError
        return self.seen.pop(0)

    async def escalate(self, issue: str, *_: object, **__: object) -> str:
        self.told.append(issue)
        return ""


def told(*seen: float) -> list[str]:
    monitor = Told(list(seen))
    task = Task(task_id="t", description="watch", params={"percent": "90", "seconds": "0"})
    with pytest.raises(EOFError):
        asyncio.run(monitor.handle_task(task))
    return monitor.told


def test_trouble_is_told_once_and_again_when_it_comes_back_or_stays() -> None:
    assert told(10, 89.9) == []
    assert told(95, 96, 97) == ["memory: 95 % in use, 90 % are too much"]
    assert len(told(95, 50, 95)) == 2
    assert len(told(*[95.0] * (QUIET_LOOKS + 2))) == 2
