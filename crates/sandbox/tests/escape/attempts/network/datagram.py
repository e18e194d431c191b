# tries: to send a datagram to a service of the host on 127.0.0.1
# inside standard: EPERM
# inside standard-net: ECONNREFUSED
# outside: sent
import errno, os, socket
try:
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect(("127.0.0.1", int(os.environ["DATAGRAMS"])))
    out.send(b"x")
    # Nobody there is told by the next call.
    out.send(b"x")
    print("sent")
except OSError as error:
    print(errno.errorcode[error.errno])
