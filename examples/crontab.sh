#!/usr/bin/env bash
# Jobs without Python: a shell command and a webhook, created with curl on a running `duly up --allow-shell`.
set -euo pipefail
url=${DULY_URL:-http://127.0.0.1:3859}
key=${DULY_KEY:-$(cat "${DULY_HOME:-.duly}/admin.key")}

create() {
  curl --fail-with-body --silent --show-error "$url/v1/jobs" -H "Authorization: Bearer $key" -H "Content-Type: application/json" -d "$1"
  echo
}

create '{"name": "disk-space", "schedule": "*/5 * * * *", "target": {"shell": ["df", "-h", "/"]}, "timeoutSec": 30}'
create '{"name": "ping", "intervalSec": 60, "target": {"http": {"url": "https://example.com/hooks/alive", "method": "POST"}}}'
