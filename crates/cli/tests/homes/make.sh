#!/usr/bin/env bash
# Makes a home as one version of skep leaves it, and packs it: `make.sh SKEP OUT.tar.gz`.
#
# Homes of earlier versions are kept here, and `cli/tests/homes.rs` opens each with today's. They are never made again: a home that
# today's version wrote says nothing about yesterday's. The project's path is part of the records, so it is the same on every machine.
set -euo pipefail
skep=$(realpath "$1")
out=$(realpath "$2")
top=/var/tmp/skep-kept-home
rm -rf "$top"
mkdir -p "$top/project"
export SKEP_HOME="$top/home" NO_COLOR=1
cd "$top/project"
git init -q -b main
printf 'one\n' >a.txt
printf 'two\n' >b.txt
printf 'three\n' >c.txt
printf '#!/bin/sh\necho tested\n' >check.sh
git add -A
git -c user.name=t -c user.email=t@t commit -q -m 'a start'
mkdir -m 700 "$SKEP_HOME"
cat >"$top/model.script" <<'END'
say I look first.
call fs.read path=c.txt
usage in=1200 out=40
then
say c.txt has one line.
usage in=1300 out=12
END
cat >"$SKEP_HOME/config.yml" <<END
providers:
  kept: { url: 'script:$top/model.script', dialect: anthropic }
models:
  tactical: kept/scripted
END
script() { cat >"$top/$1.script"; }

script merged <<'END'
say I change a file.
call fs.read path=a.txt
call fs.write path=a.txt content="one, merged\n"
call fs.write path=../outside content=x
done a.txt is changed
END
script rejected <<'END'
call fs.write path=b.txt content="two, rejected\n"
done b.txt is changed
END
script asking <<'END'
call fs.write path=before.txt content="before the question\n"
call fs.write path=VERSION content="2\n"
call fs.write path=after.txt content="after the answer\n"
done asked and answered
END
script refused <<'END'
call fs.write path=LICENCE content="mine\n"
call fs.write path=other.txt content="goes on\n"
done refused and done
END
script waiting <<'END'
call shell.run command=["sh","-c","echo waits > w.txt; rm b.txt; mkdir -p deep/er; echo x > deep/er/f; ln -s a.txt link"]
done waits for its merge
END
script middle <<'END'
call fs.write path=m1.txt content="first\n"
call fs.write path=m2.txt content="second\n"
call fs.write path=c.txt content="three, merged\n"
done three paths
END

"$skep" init >/dev/null
cat >>.skep/policy.yaml <<'END'

  - name: ask-before-release
    match: { syscall: fs.write, path_glob: ["/VERSION", "/LICENCE"] }
    action: require_review
    reason: a release is a person's decision
    hint: "answer with `skep review`"
END
"$skep" trust --yes >/dev/null
git add -A
git -c user.name=t -c user.email=t@t commit -q -m 'with a policy'
"$skep" act 'a merged task' --brain "script:$top/merged.script" --await >/dev/null || true
"$skep" merge task-1 --yes >/dev/null
"$skep" act 'a rejected task' --brain "script:$top/rejected.script" --await >/dev/null || true
"$skep" reject task-2 >/dev/null
"$skep" act 'a task with a question' --brain "script:$top/asking.script" --await >/dev/null || true
"$skep" act 'a task that waits for its merge' --brain "script:$top/waiting.script" --await >/dev/null || true
"$skep" act 'a task killed in its merge' --brain "script:$top/middle.script" --await >/dev/null || true
"$skep" budget set 1 --tokens all=1000000 >/dev/null
"$skep" ask 'what is in c.txt?' --brain native --await >/dev/null || true
"$skep" act 'a task with a lasting no' --brain "script:$top/refused.script" --await >/dev/null || true
"$skep" review deny r-6 --for-good --for process --reason 'never by itself' >/dev/null
until "$skep" review | grep -q r-7; do sleep 0.2; done
"$skep" call fs.read path=a.txt >/dev/null
"$skep" sandbox run -- true >/dev/null
"$skep" kernel stop >/dev/null
SKEP_FAULT=merge:5 "$skep" kernel run >/dev/null 2>&1 &
kernel=$!
until "$skep" kernel status >/dev/null 2>&1; do sleep 0.1; done
"$skep" merge task-5 --yes >/dev/null 2>&1 || true
wait "$kernel" || true
# The kernel is dead, its room may still be going.
sleep 1
rm -rf "$SKEP_HOME"/kernel.sock "$SKEP_HOME"/run/*
tar -C "$top" --numeric-owner -czf "$out" home project
ls -la "$out"
