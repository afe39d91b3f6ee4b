#!/usr/bin/env bash
# Builds packages into dist/, and tries each where nothing else of sopan is.
#   ./packages.sh            all of them
#   ./packages.sh deb        a Debian package
#   ./packages.sh wheel      a wheel for pip
#   ./packages.sh static     a program that needs no library of the system (x86-64)
# What builds them (cargo-deb, maturin) is installed below target/ where it is missing.
set -euo pipefail
cd "$(dirname "$0")"

tools=$PWD/target/tools
export PATH="$tools/bin:$PATH"

fail() {
    echo "packages.sh: $*" >&2
    exit 1
}

# Says the version, by this program and by no other.
try() {
    "$@" -V | grep -E '^sopan [0-9]' || fail "$1 does not run"
}

deb() {
    command -v dpkg-deb >/dev/null || fail 'dpkg-deb is missing: Debian packages are built on Debian'
    command -v cargo-deb >/dev/null || {
        echo 'cargo-deb is missing: building it, which takes a few minutes'
        cargo install --quiet --locked --root "$tools" cargo-deb@3.8.0
    }
    rm -f dist/*.deb
    cargo deb -p sopan --locked --output dist/
    dpkg-deb -x dist/*.deb "$scratch/deb"
    try "$scratch/deb/usr/bin/sopan"
}

wheel() {
    command -v maturin >/dev/null || {
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet --disable-pip-version-check maturin==1.16.0
    }
    rm -f dist/*.whl
    maturin build --release --locked --out dist
    python3 -m venv "$scratch/wheel"
    "$scratch/wheel/bin/pip" install --quiet --disable-pip-version-check --no-index dist/*.whl
    try "$scratch/wheel/bin/sopan"
}

static() {
    local target=x86_64-unknown-linux-musl
    command -v musl-gcc >/dev/null || fail 'musl-gcc is missing (Debian package musl-tools), which builds the TLS library'
    rustc --print target-libdir --target "$target" | xargs test -d ||
        fail "Rust's library for $target is missing: rustup target add $target"
    CC_x86_64_unknown_linux_musl=musl-gcc cargo build --release --locked -p sopan --target "$target"
    rm -rf dist/sopan-*-"$target"*
    local built=${CARGO_TARGET_DIR:-target}/$target/release/sopan
    local name
    name=sopan-$("$built" -V | cut -d' ' -f2)-$target
    mkdir -p "$scratch/$name"
    strip -o "$scratch/$name/sopan" "$built"
    cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$scratch/$name"
    cp crates/sopan/src/admin/dashboard/vendor/LICENSE "$scratch/$name/LICENSE-uPlot"
    tar -C "$scratch" -czf "dist/$name.tar.gz" "$name"
    # A root without any library shows what it needs.
    if [[ $(id -u) == 0 ]]; then
        try chroot "$scratch/$name" /sopan
    else
        try "$scratch/$name/sopan"
    fi
}

mkdir -p dist
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for kind in "${@:-deb wheel static}"; do
    for each in $kind; do
        case "$each" in
        deb | wheel | static) "$each" ;;
        *) fail "there is no package $each: deb, wheel and static are known" ;;
        esac
    done
done
ls -l dist
