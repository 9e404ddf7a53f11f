"""The services of Horovod's own launchers on one host, found at its loopback address and at all others."""

from checks import require, tell
from horovod.runner.common.util import secret
from horovod.runner.compat.network import BasicClient, BasicService
from horovod.runner.http.http_client import put_data_into_kvstore, read_data_from_kvstore
from horovod.runner.http.http_server import KVStoreServer
from horovod.runner.util import network

server = KVStoreServer()
port = server.start_server()
put_data_into_kvstore(network.loopback_address(), port, "scope", "key", 17)
require(read_data_from_kvstore(network.outward_address(), port, "scope", "key") == 17, "a value")
server.shutdown_server()

key = secret.make_secret_key()
service = BasicService("driver", key)
client = BasicClient("driver", service.addresses(), key, match_intf=True)
require(client.addresses() == service.addresses(), f"{client.addresses()} of {service.addresses()}")
require(len(client.addresses()) > 1, f"interfaces: {client.addresses()}")
service.shutdown()
tell(f"fine at {network.loopback_address()}")
