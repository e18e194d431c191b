# tries: to have a name resolved, whose letters could carry a message out
# inside standard: cannot be asked
# inside standard-net: cannot be asked
# outside: could be asked
import socket
try:
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.connect(("192.0.2.53", 53))
    print("could be asked")
except OSError:
    try:
        socket.getaddrinfo("example.invalid", 80)
        print("was answered")
    except socket.gaierror:
        print("cannot be asked")
