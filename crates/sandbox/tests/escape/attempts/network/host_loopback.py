# tries: to reach a service of the host on 127.0.0.1
# inside standard: EPERM
# inside standard-net: ECONNREFUSED
# outside: connected
import errno, os, socket
try:
    socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5)
    print("connected")
except OSError as error:
    print(errno.errorcode[error.errno])
