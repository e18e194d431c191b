"""Prints at import what could be taken for the handshake, from Python and from below."""

import os
import subprocess
import sys

from skep import Agent, Task, TaskResult

print("READY 1")
os.write(1, b"READY 2\n")
subprocess.run([sys.executable, "-c", "print('READY 3')"], check=True)


class Noisy(Agent):
    async def handle_task(self, task: Task) -> TaskResult:
        print("x" * 200_000)
        return TaskResult(output="printed")
