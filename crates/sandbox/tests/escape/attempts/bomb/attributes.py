# tries: to fill the disk with what is written beside files
# limits: disk=4m wall=120
# inside: overfull
# outside: 8 MB
import os, time
for number in range(2000):
    open(f"file{number}", "w").close()
    os.setxattr(f"file{number}", "user.x", b"x" * 4000)
if os.environ["VICTIM"] == "1": time.sleep(100)
print("8 MB")
