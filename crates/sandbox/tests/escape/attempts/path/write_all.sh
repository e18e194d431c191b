# tries: to change the project itself: contents, names, modes, owners, times, links
# inside: all done
# outside: all done
echo x > open.txt && ln sub/file hard && echo y >> hard && chmod 777 sub && touch -d 1970-01-01 sub/file &&
    mv sub/file sub/moved && rm -r sub && mkdir sub && ln -sfn /etc sub/link && rm fifo socket && echo all done
