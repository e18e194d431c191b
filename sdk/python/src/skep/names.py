"""The contract's closed lists, as the words that people write and the numbers that go over the wire.

**Invariant.** A word that is not in its list is an error; it never becomes a default, because the number 0 of a role is the kernel.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Generic, Literal, TypeVar, cast, get_args

from skep.wire import agent_pb2 as wire  # noqa: F401  the types below name it

Role = Literal["kernel", "daemon", "agent", "architect", "lead", "worker", "task"]
Tier = Literal["strategic", "tactical", "operational"]
State = Literal["idle", "running", "blocked", "sleeping", "dead", "zombie"]
Priority = Literal["critical", "high", "normal", "low"]
Relation = Literal["system", "parent", "child", "sibling"]
Reason = Literal["normal", "parent_died", "budget_exceeded", "migration", "user_request"]
Runtime = Literal["python", "claw", "custom"]
Visibility = Literal["private", "user", "subtree", "global"]
Severity = Literal["info", "warning", "error", "critical"]
Level = Literal["debug", "info", "warn", "error"]

AckName = Literal["ACCEPTED", "QUEUED", "REJECTED", "ESCALATE"]


class Ack(IntEnum):
    """What an agent does with a message."""

    ACCEPTED = 0
    QUEUED = 1
    REJECTED = 2
    ESCALATE = 3


ACK_ACCEPTED: Final = Ack.ACCEPTED
ACK_QUEUED: Final = Ack.QUEUED
ACK_REJECTED: Final = Ack.REJECTED
ACK_ESCALATE: Final = Ack.ESCALATE

W = TypeVar("W", bound=str)
N = TypeVar("N", bound=int)


class Names(Generic[W, N]):
    """One list: its words in the order of their numbers, which count from 0."""

    def __init__(self, what: str, words: object) -> None:
        self._what = what
        self._words = cast("tuple[W, ...]", get_args(words))

    def number(self, word: str) -> N:
        """The number of a word. A word that is not in the list raises `ValueError`."""
        try:
            return cast("N", self._words.index(cast("W", word)))
        except ValueError:
            raise ValueError(f"`{word}` is not a {self._what}: one of {', '.join(self._words)}") from None

    def word(self, number: int) -> W:
        """The word of a number. A number that a newer kernel may know raises `ValueError`."""
        if 0 <= number < len(self._words):
            return self._words[number]
        raise ValueError(f"{number} is not the number of a {self._what}")


ROLES: Final = Names[Role, "wire.AgentRole.ValueType"]("role", Role)
TIERS: Final = Names[Tier, "wire.CognitiveTier.ValueType"]("cognitive tier", Tier)
STATES: Final = Names[State, "wire.AgentState.ValueType"]("state", State)
PRIORITIES: Final = Names[Priority, "wire.Priority.ValueType"]("priority", Priority)
RELATIONS: Final = Names[Relation, "wire.MessageRelation.ValueType"]("relation", Relation)
REASONS: Final = Names[Reason, "wire.ShutdownReason.ValueType"]("reason", Reason)
RUNTIMES: Final = Names[Runtime, "wire.RuntimeType.ValueType"]("runtime", Runtime)
VISIBILITIES: Final = Names[Visibility, "wire.ArtifactVisibility.ValueType"]("visibility", Visibility)
SEVERITIES: Final = Names[Severity, "wire.EscalationSeverity.ValueType"]("severity", Severity)
ACKS: Final = Names[AckName, "wire.AckStatus.ValueType"]("status", AckName)
LEVELS: Final = Names[Level, "wire.LogLevel.ValueType"]("level", Level)
