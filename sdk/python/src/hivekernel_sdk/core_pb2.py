"""The contract's `core_pb2`, under the name that HiveKernel's clients import."""

from skep.wire.core_pb2 import *  # noqa: F403
