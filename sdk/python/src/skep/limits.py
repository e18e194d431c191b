"""Limits of an agent's process, each with its reason."""

from __future__ import annotations

from typing import Final

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest message that is sent: what a gRPC peer takes by default. A larger one would break the stream of the task that sent it."""

RECEIVED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest message that is read: a kernel may send an artifact that is larger than what an agent may store in one piece."""

PROGRESS_QUEUED_MAX: Final = 256
"""Reports that wait for a slow kernel before `report_progress` waits too."""

STREAM_CHUNK_BYTES_MAX: Final = 64 * 1024
"""The largest piece of a stream of bytes that the kernel takes."""

CALLS_OPEN_MAX: Final = 48
"""Calls of one task that the kernel has not answered. The kernel ends a task that has more than 64 open, questions included."""

SNAPSHOT_BYTES_MAX: Final = 2 * 1024 * 1024
"""The largest state of `on_shutdown`: in base64, with the rest of an `Init`, it must fit into one message."""

MESSAGE_IDS_MAX: Final = 10_000
"""Ids of messages that are remembered: far more than a kernel has under way to one agent."""

CALL_SECONDS_MAX: Final = 60.0
"""The deadline of a call that waits for nobody: a spawn takes two handshakes of ten seconds at most."""

WAIT_SECONDS_EXTRA: Final = 10.0
"""What a call that waits for a process gets on top of its own timeout, so that the kernel's answer arrives and not a deadline."""

CANCEL_SECONDS_MAX: Final = 5.0
"""How long a cancelled task may clean up before it is told as still running."""

GRACE_SECONDS_DEFAULT: Final = 5.0
"""How long a shutdown may take when the kernel does not say."""

TASK_LINGER_SECONDS: Final = 0.5
"""How long a process of the role `task` stays after its one task, so that the kernel reads the result before the stream closes."""

INIT_SECONDS_MAX: Final = 60.0
"""How long a process waits for its `Init`: a kernel that is gone sends none, and nobody else would end the process."""
