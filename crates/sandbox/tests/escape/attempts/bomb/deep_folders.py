# tries: a chain of folders so deep that nobody can name its end, or remove it
# limits: wall=60
# inside: 10000 deep
# outside: 10000 deep
import os
for level in range(10000):
    os.mkdir("d")
    os.chdir("d")
open("end", "w").write("x")
print("10000 deep")
