#!/usr/bin/env bash
# Measures everything of bench/README.md, one after the other: about half an hour on a machine that does nothing else.
#   bench/run.sh [passthrough|stored|scrape|watched|https|pacing|loaded|limits|waiting|core|windows|conformance|faults|soak|instances|ledger|fetch …]
set -euo pipefail
cd "$(dirname "$0")/.."

for program in nginx wrk cc python3; do
    command -v "$program" >/dev/null || {
        echo "missing: $program; on Debian: apt-get install nginx-light wrk gcc python3" >&2
        exit 1
    }
done
cargo build --release --locked -p sopan

ulimit -n 20000 2>/dev/null || echo "the limit of open files stays $(ulimit -n): fewer idle connections can be measured" >&2
for what in "${@:-passthrough stored scrape watched https pacing loaded limits waiting core}"; do
    for one in $what; do
        printf '\n== %s\n' "$one"
        case $one in
            passthrough | stored | scrape | watched | https | pacing | limits | windows | faults | soak | instances | ledger | fetch) "bench/$one.py" ;;
            loaded) bench/pacing.py --loaded ;;
            waiting) cargo bench --quiet -p sopan-engine --bench waiting ;;
            conformance)
                cargo build --release --locked -p sopan-fake --example conformance
                bench/conformance.py
                ;;
            core) cargo bench --quiet -p sopan-core ;;
            *) echo "unknown: $one; there are passthrough, stored, scrape, watched, https, pacing, loaded, limits, waiting, core, windows, conformance, faults, soak, instances, ledger, fetch" >&2; exit 2 ;;
        esac
    done
done
