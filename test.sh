#!/usr/bin/env bash
# Runs every test. On a Debian machine as root it first installs what is missing and says so. Elsewhere nothing is built
# without a C compiler, so it ends there, and tests that need another missing program say SKIPPED; with CI=true any missing
# program is a failure.
#   ./test.sh [ARGUMENTS FOR THE TEST RUNNER]
set -euo pipefail
cd "$(dirname "$0")"

# program:Debian package:what it is for
needs=(
    'cc:gcc:building the TLS library, without which there is no sopan'
    'curl:curl:tests with a client that is not ours'
    'python3:python3:the recipes in Python'
    'ensurepip:python3-venv:the recipes in Python'
    'node:nodejs:the recipe in JavaScript'
    'man:man-db:tests of the manual pages'
    'chromium:chromium:tests of the dashboard'
    'redis-server:redis-server:tests of limits that instances share'
)

# A program, or the module without which Python makes no environment.
is_there() {
    case "$1" in
    ensurepip) python3 -c 'import ensurepip' 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

missing=()
for need in "${needs[@]}"; do
    is_there "${need%%:*}" || missing+=("$need")
done
if ((${#missing[@]})); then
    packages=()
    for need in "${missing[@]}"; do
        IFS=: read -r program package purpose <<<"$need"
        echo "missing: $program (Debian package $package), for $purpose"
        packages+=("$package")
    done
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        echo "installing: ${packages[*]}"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
    elif [[ ${CI:-} == true ]]; then
        echo 'CI=true: a skipped test would be a failure, so this stops here' >&2
        exit 1
    elif ! command -v cc >/dev/null; then
        echo 'not root on Debian, and nothing can be built without a C compiler: install one' >&2
        exit 1
    else
        echo 'not root on Debian: the tests that need them will be SKIPPED'
    fi
fi

# The Python programs of docs/recipes.md run in an environment of their own, which stays until the list changes.
list=crates/sopan/tests/data/recipes.txt recipes=target/recipes
if is_there ensurepip && ! cmp -s "$list" "$recipes/installed"; then
    echo "installing into $recipes what the recipes in Python need (about 140 MB)"
    rm -rf "$recipes"
    if python3 -m venv "$recipes" && "$recipes/bin/pip" install --quiet --disable-pip-version-check -r "$list"; then
        cp "$list" "$recipes/installed"
    elif [[ ${CI:-} == true ]]; then
        echo 'CI=true: a skipped test would be a failure, so this stops here' >&2
        exit 1
    else
        echo 'they cannot be installed: the tests that need them will be SKIPPED'
    fi
fi

if command -v cargo-nextest >/dev/null; then
    cargo nextest run --workspace --locked "$@"
else
    echo 'cargo-nextest is missing: using cargo test, one test at a time since many measure time'
    cargo test --workspace --locked --lib --bins --tests "$@" -- --test-threads 1
fi
cargo test --workspace --locked --doc --quiet
