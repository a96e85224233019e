"""Reads ids in batches: batch.py SOCKET NAME COUNT TIMES"""

import socket
import struct
import sys

path, name, count, times = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
connection = socket.socket(socket.AF_UNIX)
connection.connect(path)
stream = connection.makefile("rb")

for _ in range(times):
    connection.sendall(struct.pack("<BBHI", 1, len(name), 0, count) + name)
    status, length = struct.unpack("<II", stream.read(8))
    if status != 0:
        sys.exit(f"status {status}: {stream.read(length).decode()}")
    for id in struct.unpack(f"<{length}Q", stream.read(8 * length)):
        print(id)
