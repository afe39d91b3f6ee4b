# `just` lists what there is; `just check` is all that a change must pass.
default:
    @just --list

# Everything a change must pass.
check: fmt clippy doc deny test

# Formatting is as rustfmt writes it.
fmt:
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check

# Warnings are errors.
clippy:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Documentation builds, with no broken link.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Licences, banned crates, sources.
deny:
    cargo deny --locked check licenses bans sources

# All tests; installs what they need on a Debian machine as root.
test *ARGS:
    ./test.sh {{ARGS}}

# Packages into dist/: deb, wheel, static, or all.
packages *KINDS:
    ./packages.sh {{KINDS}}

# Micro-benchmarks of the core.
bench:
    cargo bench --workspace

# Fuzzes a target (those of fuzz/fuzz_targets) for so many seconds; needs cargo-fuzz.
fuzz TARGET SECONDS="600":
    RUSTC_BOOTSTRAP=1 cargo fuzz run {{TARGET}} -- -max_total_time={{SECONDS}} -max_len=4096 -dict=fuzz/http.dict -detect_leaks=0
