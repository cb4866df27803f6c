"""Submits a workload with stock gRPC stubs and watches it until all its replicas serve; then scales it, and takes it down.

Needs a cluster with controllers, a scheduler and agents: `setpoint dev`, or `make run`. The stubs are made as for submit.py:

    PYTHONPATH=stubs python examples/python/serve.py 127.0.0.1:7400
"""

import json
import sys
import urllib.request

import grpc
from setpoint.v1 import object_pb2, objects_pb2, objects_pb2_grpc

NAME = "from-python"
# The agent chooses a port for 0, and tells the program by the variable PORT.
TEMPLATE = {
    "labels": {"app": NAME},
    "command": ["sh", "-c", "exec python3 -m http.server $PORT --bind 127.0.0.1"],
    "ports": [{"name": "http", "port": 0}],
    "resources": {"cpu": "50m", "memory": "64Mi"},
    "readinessProbe": {"http": {"port": "http", "path": "/"}, "periodSeconds": 1},
    "restartBackoff": {"initialSeconds": 1, "maxSeconds": 30},
    "terminationGraceSeconds": 5,
}


def apply(objects, replicas):
    """Says how many; what is there already is changed, and nothing else."""
    metadata = object_pb2.Metadata(namespace="default", name=NAME, labels={"app": NAME})
    spec = json.dumps({"replicas": replicas, "template": TEMPLATE}).encode()
    request = objects_pb2.ApplyRequest(
        object=object_pb2.Object(kind="Workload", metadata=metadata, spec=spec),
        options=objects_pb2.WriteOptions(manager="python-example"),
    )
    return objects.Apply(request).write.revision


def until_serving(objects, replicas):
    """Watches the one workload, from its current state on, until the status is about this spec and all replicas serve."""
    request = objects_pb2.WatchRequest(
        kind="Workload", namespace="default", label_selector=f"app={NAME}", initial_state=True, timeout_ms=120_000
    )
    last = None
    for answer in objects.Watch(request, timeout=120):
        for event in answer.events:
            if event.type not in (objects_pb2.WatchEvent.ADDED, objects_pb2.WatchEvent.MODIFIED):
                continue
            spec = json.loads(event.object.spec)
            status = json.loads(event.object.status or b"{}")
            counts = status.get("replicas", {})
            shown = " ".join(f"{name}={count}" for name, count in counts.items() if count)
            if shown != last:
                print(f"revision {event.revision}: {shown}")
                last = shown
            current = status.get("observedGeneration", 0) >= event.object.metadata.generation
            if current and spec["replicas"] == replicas and counts.get("serving", 0) == replicas == counts.get("desired"):
                return
    raise SystemExit(f"{NAME} did not serve in two minutes; `setpoint describe workload {NAME}` says why")


def endpoints(objects):
    """Where its replicas answer."""
    listed = objects.List(objects_pb2.ListRequest(kind="Replica", namespace="default", label_selector=f"app={NAME}"))
    found = (json.loads(it.status or b"{}").get("endpoints", []) for it in listed.objects)
    return [f"http://{it['host']}:{it['port']}/" for some in found for it in some]


def main(address):
    objects = objects_pb2_grpc.ObjectsStub(grpc.insecure_channel(address))
    print(f"submitted {NAME} at revision {apply(objects, 2)}")
    until_serving(objects, 2)
    for url in endpoints(objects):
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.status == 200, answer
        print(f"{url} answers")
    apply(objects, 3)
    until_serving(objects, 3)
    assert len(endpoints(objects)) == 3, endpoints(objects)
    objects.Delete(objects_pb2.DeleteRequest(key=objects_pb2.ObjectKey(kind="Workload", namespace="default", name=NAME)))
    print("done")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400")
