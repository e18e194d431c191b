# tries: a chain of folders so deep, with names so long, that nobody can name its end, or remove it
# limits: wall=60
# inside: 250 deep
# outside: 250 deep
import os
for level in range(250):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("end", "w").write("x")
print("250 deep")
