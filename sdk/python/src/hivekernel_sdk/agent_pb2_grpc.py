"""The contract's `agent_pb2_grpc`, under the name that HiveKernel's clients import."""

from skep.wire.agent_pb2_grpc import *  # noqa: F403
