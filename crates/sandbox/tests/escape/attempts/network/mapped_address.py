# tries: to reach the host's loopback written as an IPv6 address
# inside standard: EPERM
# inside standard-net: ECONNREFUSED
# outside: connected
import errno, os, socket
try:
    there = socket.socket(socket.AF_INET6)
    there.connect(("::ffff:127.0.0.1", int(os.environ["PORT"])))
    print("connected")
except OSError as error:
    print(errno.errorcode[error.errno])
