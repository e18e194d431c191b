# tries: to find neighbours by multicast
# inside standard: EPERM
# inside standard-net: ENETUNREACH
# outside: asked
import errno, socket
try:
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    there.connect(("239.255.255.250", 1900))
    print("asked")
except OSError as error:
    print(errno.errorcode[error.errno])
