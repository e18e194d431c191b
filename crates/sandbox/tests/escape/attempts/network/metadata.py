# tries: to find a route to the address where clouds give out keys
# inside standard: EPERM
# inside standard-net: ENETUNREACH
# outside: routed
import errno, socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("169.254.169.254", 80))
    print("routed")
except OSError as error:
    print(errno.errorcode[error.errno])
