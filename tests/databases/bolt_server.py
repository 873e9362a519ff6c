"""A server that speaks Bolt, in a process of its own: ArcadeDB. Arguments: folder, Bolt port, HTTP port, password."""

import sys
from pathlib import Path

import arcadedb_embedded as arcadedb

folder, port, http_port, password = sys.argv[1:]
Path(folder).mkdir(parents=True, exist_ok=True)
server = arcadedb.ArcadeDBServer(
    folder,
    root_password=password,
    config={
        "http_port": int(http_port),
        "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "bolt_port": int(port),
    },
    jvm_kwargs={"heap_size": "512m"},
)
server.start()
server.create_database("kg")
print("ready", flush=True)
sys.stdin.read()  # until the test ends
server.stop()
