# tries: to leave by IPv6
# inside standard: EPERM
# inside standard-net: ENETUNREACH
# outside namespace: routed
import errno, os, socket, subprocess
try:
    there = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    if os.getuid() == 0:
        # Outside: a network of its own, in which there is a way.
        subprocess.run("ip link set lo up; ip -6 route add default dev lo", shell=True, check=True)
    there.connect(("2001:db8::1", 53))
    print("routed")
except OSError as error:
    print(errno.errorcode[error.errno])
