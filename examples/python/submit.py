"""Submits a workload with stock gRPC stubs, lists it, watches it, and loses a field to nobody.

The stubs are generated from `proto/` by grpcio-tools (scripts/test-python does it):

    python -m grpc_tools.protoc -I proto --python_out=stubs --grpc_python_out=stubs proto/setpoint/v1/*.proto
    PYTHONPATH=stubs python examples/python/submit.py 127.0.0.1:7400
"""

import json
import sys

import grpc
from setpoint.v1 import object_pb2, objects_pb2, objects_pb2_grpc


def workload(name, **spec):
    """A Workload: the envelope is protobuf, what is inside is JSON."""
    metadata = object_pb2.Metadata(namespace="default", name=name, labels={"app": name})
    return object_pb2.Object(kind="Workload", metadata=metadata, spec=json.dumps(spec).encode())


def why(error):
    """The reason of a refused call: every failed call carries a setpoint.v1.Error in its details."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            # google.rpc.Status: details are `Any`s in field 3; ours has the Error in its field 2.
            return parse(value)
    raise AssertionError(f"no details in {error}")


def parse(status):
    any_message = fields(status)[3][0]
    refused = objects_pb2.Error()
    refused.ParseFromString(fields(any_message)[2][0])
    return refused


def fields(message):
    """The length-delimited fields of a protobuf message by number, so that no further stubs are needed."""
    found, at = {}, 0
    while at < len(message):
        tag, at = varint(message, at)
        if tag & 7 == 2:
            length, at = varint(message, at)
            found.setdefault(tag >> 3, []).append(message[at : at + length])
            at += length
        else:
            _, at = varint(message, at)
    return found


def varint(message, at):
    number, shift = 0, 0
    while True:
        byte = message[at]
        number, shift, at = number | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return number, at


def main(address):
    objects = objects_pb2_grpc.ObjectsStub(grpc.insecure_channel(address))
    template = {"image": "registry.example/web:1", "resources": {"cpu": "500m", "memory": "256Mi"}}

    # Submit. An operation id makes the retry of a call whose answer was lost safe.
    options = objects_pb2.WriteOptions(manager="ci", operation="submit-web-1")
    request = objects_pb2.ApplyRequest(object=workload("web", replicas=3, template=template), options=options)
    submitted = objects.Apply(request).write
    again = objects.Apply(request).write
    assert again.repeated and again.revision == submitted.revision, again
    print(f"submitted web at revision {submitted.revision}")

    # List, by label.
    listed = objects.List(objects_pb2.ListRequest(kind="Workload", label_selector="app=web"))
    assert [it.metadata.name for it in listed.objects] == ["web"], listed
    print(f"listed {len(listed.objects)} workload at revision {listed.revision}")

    # Watch: the current state first, closed by a bookmark, then every change.
    watch = objects.Watch(objects_pb2.WatchRequest(kind="Workload", initial_state=True, timeout_ms=60_000))
    events = (event for answer in watch for event in answer.events)
    first, bookmark = next(events), next(events)
    assert first.type == objects_pb2.WatchEvent.ADDED and first.object.metadata.name == "web", first
    assert bookmark.type == objects_pb2.WatchEvent.BOOKMARK and bookmark.initial_state_end, bookmark
    print(f"watched up to the bookmark at revision {bookmark.revision}")

    # Somebody else wants other replicas: refused, and told who decides them.
    disagree = objects_pb2.ApplyRequest(
        object=workload("web", replicas=5), options=objects_pb2.WriteOptions(manager="autoscaler")
    )
    try:
        objects.Apply(disagree)
        raise AssertionError("two managers cannot decide one field")
    except grpc.RpcError as error:
        refused = why(error)
        assert refused.reason == objects_pb2.CONFLICT, refused
        (conflict,) = [it for it in refused.conflicts if it.path == ".spec.replicas"]
        assert (conflict.manager, conflict.value) == ("ci", "3"), conflict
        print(f"conflict: {error.details()}")

    # With force it is taken, and the watch sees it.
    disagree.force = True
    taken = objects.Apply(disagree)
    assert [it.manager for it in taken.taken if it.path == ".spec.replicas"] == ["ci"], taken
    changed = next(event for event in events if event.type == objects_pb2.WatchEvent.MODIFIED)
    assert changed.revision == taken.write.revision and changed.author.manager == "autoscaler", changed
    assert json.loads(changed.object.spec)["replicas"] == 5
    watch.cancel()

    deleted = objects.Delete(objects_pb2.DeleteRequest(key=objects_pb2.ObjectKey(kind="Workload", name="web")))
    assert deleted.gone, deleted
    print("done")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400")
