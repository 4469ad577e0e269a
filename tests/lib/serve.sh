# Sourced after e2e.sh by the tests of OUT serve: starts servers and ends them.
server_pid=

# start_server PROGRAM [flags]: on a free port of the loopback; sets `url` and `server_pid`. Its output is in $work/serve.log.
start_server() {
  : >"$work/serve.log"  # else the line of the server before may be read until this one's shell has opened the file
  "$@" --port 0 2>"$work/serve.log" &
  server_pid=$!
  local tries=0
  until grep -q "listening on" "$work/serve.log" && [ -z "$(tail -c 1 "$work/serve.log")" ]; do  # the line is whole
    kill -0 "$server_pid" 2>/dev/null || fail "the server is gone: $(cat "$work/serve.log")"
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || fail "the server does not listen: $(cat "$work/serve.log")"
    sleep 0.1
  done
  url="$(sed -n 's/.*listening on //p' "$work/serve.log")"
}

# end_server: by SIGTERM; it must end by itself, with exit code 0.
end_server() {
  local code=0
  kill -TERM "$server_pid"
  wait "$server_pid" || code=$?
  [ "$code" = 0 ] || fail "the server ended with $code: $(cat "$work/serve.log")"
  server_pid=
}

trap '[ -z "$server_pid" ] || kill -KILL "$server_pid" 2>/dev/null; rm -rf "$work"' EXIT
