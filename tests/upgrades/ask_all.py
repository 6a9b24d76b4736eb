"""Call every method of this tree's contracts with an empty request: one JSON object of method and status code.

Run in the tree whose stubs are to be used: `python ask_all.py SERVICE=ADDRESS ...`, SERVICE as in `ledger`.
"""

import importlib
import json
import sys

import grpc

DEADLINE_SECONDS = 10.0


def main() -> None:
    """Ask the services named by the arguments, and write the answers' codes."""
    codes = {}
    for service, address in (argument.split("=", 1) for argument in sys.argv[1:]):
        contracts = importlib.import_module(f"countersign.{service}.v1.{service}_pb2")
        with grpc.insecure_channel(address) as channel:
            for described in contracts.DESCRIPTOR.services_by_name.values():
                for method in described.methods:
                    codes[method.full_name] = ask(channel, contracts, method)
    print(json.dumps(codes))


def ask(channel, contracts, method) -> str:  # type: ignore[no-untyped-def]
    """The name of the status that the method ends with."""
    shape = ("stream" if method.client_streaming else "unary", "stream" if method.server_streaming else "unary")
    request = getattr(contracts, method.input_type.name)
    answer = getattr(contracts, method.output_type.name)
    path = f"/{method.containing_service.full_name}/{method.name}"
    open_call = getattr(channel, "_".join(shape))(path, request.SerializeToString, answer.FromString)
    try:
        sent = iter([request()]) if method.client_streaming else request()
        got = open_call(sent, timeout=DEADLINE_SECONDS)
        if method.server_streaming:
            list(got)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


if __name__ == "__main__":
    main()
