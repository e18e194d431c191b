"""Calls every method of CoreService with every field set, and compares what comes back.

The server under test sends the request back, as it read it, in the metadata of its answer, and answers with what the metadata of the request
ask for. So each field has to pass its reader and its writer.
"""

import sys

import agent_pb2
import core_pb2
import core_pb2_grpc
import grpc
from google.protobuf import message_factory
from filled import all_fields_set, choices

REQUEST, ANSWER = "x-request-bin", "x-answer-bin"


def check(stub, method, request, answer, pid):
    metadata = [("x-hivekernel-pid", pid), (ANSWER, answer.SerializeToString())]
    call = getattr(stub, method.name)
    if method.server_streaming:
        stream = call(request, metadata=metadata, timeout=120)
        answers = list(stream)
        heard = dict(stream.initial_metadata())
        assert len(answers) == 3, f"{method.name}: {len(answers)} answers"
    else:
        found, ended = call.with_call(request, metadata=metadata, timeout=120)
        answers, heard = [found], dict(ended.initial_metadata())
    for found in answers:
        assert found == answer, f"{method.name}: answered\n{found}instead of\n{answer}"
    read = type(request).FromString(heard[REQUEST])
    assert read == request, f"{method.name}: the server read\n{read}instead of\n{request}"


def main(address, pid):
    kinds = message_factory.GetMessageClass
    with grpc.insecure_channel(address) as channel:
        stub = core_pb2_grpc.CoreServiceStub(channel)
        methods = core_pb2.DESCRIPTOR.services_by_name["CoreService"].methods
        for method in methods:
            requests, answers = choices(kinds(method.input_type)), choices(kinds(method.output_type))
            for request in requests:
                for answer in answers:
                    all_fields_set(request)
                    all_fields_set(answer)
                    check(stub, method, request, answer, pid)
            # Where nothing is set nothing is sent, and nothing is read.
            check(stub, method, kinds(method.input_type)(), kinds(method.output_type)(), pid)
            print(method.name)
        try:
            stub.GetProcessInfo(core_pb2.ProcessInfoRequest(), metadata=[("x-hivekernel-pid", "abc")], timeout=120)
        except grpc.RpcError as error:
            print(error.code().name, error.details())
    assert agent_pb2.DESCRIPTOR.package == "hivekernel.agent"


if __name__ == "__main__":
    main(*sys.argv[1:])
