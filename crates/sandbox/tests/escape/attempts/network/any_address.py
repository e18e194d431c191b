# tries: to reach the host by 0.0.0.0, which means this machine
# inside standard: EPERM
# inside standard-net: ECONNREFUSED
# outside: connected
import errno, os, socket
try:
    socket.create_connection(("0.0.0.0", int(os.environ["PORT"])), 5)
    print("connected")
except OSError as error:
    print(errno.errorcode[error.errno])
