# tries: to find a route into the internet; a datagram socket that is connected sends nothing
# inside standard: EPERM
# inside standard-net: ENETUNREACH
# outside: routed
import errno, socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("192.0.2.1", 53))
    print("routed")
except OSError as error:
    print(errno.errorcode[error.errno])
