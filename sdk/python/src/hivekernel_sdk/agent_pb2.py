"""The contract's `agent_pb2`, under the name that HiveKernel's clients import."""

from skep.wire.agent_pb2 import *  # noqa: F403
