# tries: to mount an image by a loop device
# inside: none
# outside: there
ls /dev/loop* /dev/vd* /dev/sd* /dev/nvme* > /dev/null 2>&1; ls /dev | grep -q -e loop -e vda -e sda -e nvme && echo there || echo none
