"""The contract's `core_pb2_grpc`, under the name that HiveKernel's clients import."""

from skep.wire.core_pb2_grpc import *  # noqa: F403
