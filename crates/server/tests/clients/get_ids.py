"""Asks a server for ids with Apache's library: get_ids.py PORT COUNT strict|old"""

import sys
import time

from snowflake import Snowflake
from thrift.Thrift import TApplicationException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport

port, count, header = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
socket = TSocket("127.0.0.1", port)
socket.setTimeout(30_000)
transport = TFramedTransport(socket)
# An old client writes no version, and one that is strict reads nothing without.
protocol = TBinaryProtocol(transport, strictRead=header == "strict", strictWrite=header == "strict")
client = Snowflake.Client(protocol)
transport.open()


def refused(call, kind, text):
    try:
        call()
    except TApplicationException as error:
        assert error.type == kind and text in error.message, (error.type, error.message)
    else:
        raise AssertionError(f"{text}: it was answered")


before = int(time.time() * 1000)
asked = client.get_timestamp()
assert before <= asked <= int(time.time() * 1000), (before, asked)

last = -1
for _ in range(count):
    id = client.get_id("a-client-2")
    assert id > last, (id, last)
    last = id
    print(id)
print(client.get_datacenter_id(), client.get_worker_id(), file=sys.stderr)

internal, unknown = TApplicationException.INTERNAL_ERROR, TApplicationException.UNKNOWN_METHOD
for useragent in ["", "2fast", "a client", "a_client", "ä", "-a", "a\n", None]:
    refused(lambda: client.get_id(useragent), internal, "InvalidUserAgentError")


class Unknown(Snowflake.Client):
    """With a method that the server does not have, and one that awaits no answer."""

    def send(self, name, kind):
        self._oprot.writeMessageBegin(name, kind, 77)
        Snowflake.get_timestamp_args().write(self._oprot)
        self._oprot.writeMessageEnd()
        self._oprot.trans.flush()

    def get_everything(self):
        self.send("get_everything", 1)
        return self.recv_get_id()


other = Unknown(protocol)
refused(other.get_everything, unknown, "get_everything")
# If that were answered, the next answer would be the wrong one.
other.send("get_timestamp", 4)
assert client.get_id("z") > last
transport.close()
