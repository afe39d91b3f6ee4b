#!/usr/bin/env python3
"""Runs the conformance cases against sopan and four peers, and writes docs/conformance.md.

    bench/conformance.py                # all of it, some minutes; writes docs/conformance.md
    bench/conformance.py sopan nginx    # only the cases against these, printed and not written

Needs nginx, haproxy, apache2 and caddy (on Debian: apt-get install nginx-light haproxy apache2 caddy). Every program is
started here, on ports of 127.0.0.1 of its own, and ended by its id. SOPAN=path/to/sopan takes another build.
"""
import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import harness
from harness import ROOT, Folder, Program, free_port

SUITE = os.environ.get("SUITE", str(ROOT / "target/release/examples/conformance"))
PEERS = ["sopan", "nginx", "haproxy", "apache", "caddy"]
MUTANTS = 20000
PROGRAMS = {"nginx": "nginx-light", "haproxy": "haproxy", "apache2": "apache2", "caddy": "caddy"}


def main():
    wanted = sys.argv[1:] or PEERS
    if unknown := set(wanted) - set(PEERS):
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    install()
    # Most of the time is spent waiting for what does not come.
    with ThreadPoolExecutor() as pool:
        results = dict(zip(wanted, pool.map(run, wanted), strict=True))
    if len(wanted) < len(PEERS):
        for name, cases in results.items():
            faulty = [case for case in cases if case["faults"]]
            print(f"{name}: {len(cases) - len(faulty)} of {len(cases)} as sopan promises")
            for case in faulty:
                print(f"  {case['id']} ({case['kind']}): {'; '.join(case['faults'])} [{case['summary']}]")
        return
    mutants = {name: run(name, "--mutants", str(MUTANTS), "--patience-ms", "3000") for name in ("sopan", "nginx", "haproxy")}
    (ROOT / "docs").mkdir(exist_ok=True)
    (ROOT / "docs/conformance.md").write_text(report(results, mutants))
    print("written: docs/conformance.md")


def install():
    missing = [package for program, package in PROGRAMS.items() if not harness.shutil.which(program, path=PATH)]
    if missing and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], check=True)
    elif missing:
        raise SystemExit(f"missing: {' '.join(missing)}; on Debian: apt-get install {' '.join(missing)}")


PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def run(name, *flags):
    """The result of the suite in front of this proxy."""
    flags = [*flags, "--patience-ms", "3000"] if not flags else flags
    flags = [*flags, "--strict"] if name == "sopan" else list(flags)
    port, upstream = free_port(), free_port()
    with Folder() as folder, Program(START[name](folder, port, upstream), port, log=folder / "log"):
        done = subprocess.run(
            [SUITE, "--upstream", f"127.0.0.1:{upstream}", "--proxy", f"127.0.0.1:{port}", *flags],
            capture_output=True, text=True, check=False,
        )
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}{(folder / 'log').read_text()[-2000:]}")
        return json.loads(done.stdout)


# Each peer as its manual shows a reverse proxy, in front of one upstream with connections kept alive. Only what a
# comparison needs is added: short time-outs for heads, and no ban of an upstream that misbehaves on purpose.


def sopan(folder, port, upstream):
    return harness.sopan(port, upstream, "--rate", "unlimited", "--max-retries", "0", "--breaker", "off", "--workers", "1",
                         "--header-timeout", "1s", "--max-hold", "1ms")


def nginx(folder, port, upstream):
    return harness.nginx(folder, f"""client_header_timeout 1s;
map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
upstream u {{ server 127.0.0.1:{upstream} max_fails=0; keepalive 16; }}
server {{ listen 127.0.0.1:{port};
  location / {{ proxy_pass http://u; proxy_http_version 1.1; proxy_read_timeout 5s;
    client_max_body_size 0; proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade; }} }}""", workers=1)


def haproxy(folder, port, upstream):
    (folder / "haproxy.cfg").write_text(f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
    timeout http-request 1s
    timeout tunnel 10s
frontend f
    bind 127.0.0.1:{port}
    default_backend b
backend b
    server u 127.0.0.1:{upstream}
""")
    return ["/usr/sbin/haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


def apache(folder, port, upstream):
    modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in
                        ("mpm_event", "authz_core", "proxy", "proxy_http", "proxy_wstunnel", "reqtimeout"))
    (folder / "apache.conf").write_text(f"""
{modules}
ServerRoot {folder}
PidFile {folder}/pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error
Listen 127.0.0.1:{port}
ServerName 127.0.0.1
StartServers 1
ServerLimit 1
MaxRequestWorkers 25
ThreadsPerChild 25
Timeout 5
ProxyTimeout 5
RequestReadTimeout header=1
AllowEncodedSlashes NoDecode
ProxyPass / http://127.0.0.1:{upstream}/ retry=0 nocanon upgrade=websocket
""")
    return ["/usr/sbin/apache2", "-DFOREGROUND", "-f", str(folder / "apache.conf")]


def caddy(folder, port, upstream):
    (folder / "Caddyfile").write_text(f"""
{{
    admin off
    auto_https off
    servers {{
        timeouts {{
            read_header 1s
        }}
    }}
}}
http://:{port} {{
    bind 127.0.0.1
    reverse_proxy 127.0.0.1:{upstream}
}}
""")
    os.environ.update(XDG_CONFIG_HOME=str(folder), XDG_DATA_HOME=str(folder))
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


START = {"sopan": sopan, "nginx": nginx, "haproxy": haproxy, "apache": apache, "caddy": caddy}


# The report.

HEAD = """# Conformance

What an HTTP intermediary must do (RFC 9110, RFC 9112) and what sopan promises beyond, in {count} cases: what a client sends
byte by byte, what the upstream answers byte by byte, and what must hold on both sides. The cases are in
`crates/sopan-fake/src/conformance/cases`; `crates/sopan/tests/it/serve/conformance.rs` runs them against the program at
every change. This table is written by `bench/conformance.py`, which runs the same cases against other proxies:
{versions}.

## How to read it

- **must**: the RFC leaves no choice, or only one that neither loses nor confuses anything. A cell that is not `ok` says what
  was seen instead, in few words.
- **choice**: the RFC leaves a choice, and sopan takes the strict one. Where another proxy does something else, that is *no
  fault*: it serves clients that sopan turns away. Only where malformed bytes went through to the other side it is counted.
- **policy**: a promise of sopan alone. Others never made it: `ok` where it happens to hold, else `–`.
- Of sopan the exact status is asked and that the connection is closed; of others any refusal will do, also silence.
- Each peer runs as its package comes, with the plainest configuration of a reverse proxy in front of one upstream (see
  `bench/conformance.py`), strictness at its default. Some of what is missing has a switch (`ProxyVia On` in Apache, say),
  and some was mended in later versions than Debian's. An upstream that is trusted needs less of this than the one that
  sopan stands in front of. Read it as a description of what goes through, not as a ranking.

`bench/conformance.py` repeats it, in about five minutes; `bench/conformance.py nginx` prints what differs for one. It
needs Linux, the four packages and `cargo build --release -p sopan -p sopan-fake --examples --bins`.

"""

MUTATED = """## Mutated requests

{count:,} requests, good ones with one to three places broken by a seeded generator (`conformance/mutate.rs`), are sent to
sopan, nginx and haproxy. *Forwarded* means that the upstream's answer came back, *refused* an answer of the proxy's own,
*waited for* that it took the request for unfinished until its time-out, or closed without a word. That sopan lets nothing
malformed through is a test (`crates/sopan/tests/it/serve/mutations.rs`), which also cuts messages at every byte, and breaks
10,000 answers.

"""

WHY = """Most of what sopan refuses and others forward is of a few kinds. *Host*: both peers forward names and ports that cannot
be one, and haproxy also no Host or two equal ones; sopan decides by Host whether a web page may ask, so it has to be one
that can be read, and names this machine. *Folded lines*, and *a length and chunks together*: the RFC allows to mend both,
haproxy does, and what goes out is clean; sopan refuses, because the program behind the same client may have read the bytes
in the other way. *Lines that end in bare LF*: allowed too, and mended by both peers. *Names that are no token*: nginx leaves
such lines out and forwards the rest. *Control characters in values*: passed on as they came. *Look-alikes*, as `Content_Length`: harmless by the letter, and the start of some ways to
hide a field from one of two readers. In *chunked bodies* it is bare LF again, and sizes that are off by one and still fit.

What sopan forwards and nginx refuses is mostly `OPTIONS *` and methods with digits or in lower case, which nginx does not
serve; sopan passes on every method that is a token, and leaves it to the upstream whether it knows it. With haproxy the few
left are trailers that are named like framing fields: haproxy refuses the request, sopan takes the trailer away.

What one waits for and another refuses depends on when a reader looks: sopan judges a head when it is there to its end, so
one that breaks off is waited for; nginx judges byte by byte and refuses earlier.
"""


def report(results, mutants):
    names = list(results)
    cases = results["sopan"]
    versions = "; ".join(f"{name} {version(name)}" for name in names)
    text = HEAD.format(count=len(cases), versions=versions) + summary(results)
    for group in dict.fromkeys(case["group"] for case in cases):
        text += f"\n## {group[0].upper()}{group[1:]}\n\n| case | RFC | claim | {' | '.join(names)} |\n"
        text += "|---|---|---|" + "---|" * len(names) + "\n"
        for at, case in enumerate(cases):
            if case["group"] == group:
                kind = "" if case["kind"] == "must" else f" *({case['kind']})*"
                cells = [cell(name, results[name][at]) for name in names]
                text += f"| {case['id']} | {case['section']} | {escaped(case['claim'])}{kind} | {' | '.join(cells)} |\n"
    return text + "\n" + MUTATED.format(count=MUTANTS) + mutated(mutants) + "\n" + WHY


def version(name):
    argv = {"sopan": [harness.SOPAN, "--version"], "nginx": ["nginx", "-v"], "haproxy": ["/usr/sbin/haproxy", "-v"],
            "apache": ["/usr/sbin/apache2", "-v"], "caddy": ["caddy", "version"]}[name]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return re.search(r"\d+\.\d+[\w.+~-]*", done.stdout + done.stderr)[0]


def is_fault(case):
    return bool(case["faults"]) and case["kind"] == "must" or bool(case["unclean"]) and case["kind"] != "policy"


def summary(results):
    names = list(results)
    text = "## In short\n\nCases that hold, of those that must; in brackets the choices that differ without a fault.\n\n"
    text += f"| | must, choice, policy | {' | '.join(names)} |\n|---|---|" + "---|" * len(names) + "\n"
    groups = list(dict.fromkeys(case["group"] for case in results["sopan"]))
    for group in [*groups, None]:
        of_group = {name: [c for c in cases if group in (None, c["group"])] for name, cases in results.items()}
        kinds = Counter(case["kind"] for case in of_group["sopan"])
        cells = []
        for name in names:
            must = [case for case in of_group[name] if case["kind"] == "must"]
            differ = sum(bool(c["faults"]) and not is_fault(c) for c in of_group[name] if c["kind"] == "choice")
            cells.append(f"{sum(not is_fault(c) for c in must)} ({differ})" if must else f"– ({differ})")
        row = f"{kinds['must']}, {kinds['choice']}, {kinds['policy']} | {' | '.join(cells)}"
        text += f"| {group or '**all**'} | {row} |\n"
    held = sum(not case["faults"] for case in results["sopan"])
    unclean = " | ".join(str(sum(bool(c["unclean"]) for c in results[name] if c["kind"] != "policy")) for name in names)
    text += f"| malformed bytes went through | in so many cases | {unclean} |\n"
    return text + f"\nOf its own promises, policies and choices included, sopan holds {held} of {len(results['sopan'])}.\n"


def cell(name, case):
    if not case["faults"]:
        return "ok"
    if case["kind"] == "policy" and name != "sopan":
        return "–"
    told = re.sub(r"127\.0\.0\.1:\d+", "(address)", "; ".join(case["faults"]))
    told = told if len(told) <= 90 else told[:87] + "…"
    mark = "" if is_fault(case) or name == "sopan" else "differs: "
    return mark + escaped(told)


def escaped(text):
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return re.sub(r"([\\|*_`<>\[\]~])", r"\\\1", text)


def kind_of(saw):
    return "forwarded" if saw == "forwarded" else "waited for" if saw in ("waits", "408", "closed") else "refused"


CAUSES = [
    ("a line that ends in bare LF", rb"(?<!\r)\n"),
    ("a bare CR", rb"\r(?!\n)"),
    ("no Host, two, or one that is none", None),
    ("a length and chunks together", rb"(?is)(?=.*\r\ncontent-length:)(?=.*\r\ntransfer-encoding:)"),
    ("a folded line", rb"\r\n[ \t]"),
    ("a name that is no token, or no colon", rb"\r\n(?![\w!#$%&'*+.^`|~-]+:)[^\r\n]+\r\n"),
    ("a look-alike of a framing field", rb"(?i)\r\n(content_length|transfer_encoding)"),
    ("a control character", rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"),
]


def cause(message):
    """The first cause to refuse that a simple look at the head finds."""
    message = message.encode().decode("unicode_escape").encode("latin-1")
    head = message.partition(b"\r\n\r\n")[0] + b"\r\n"
    for name, pattern in CAUSES:
        hosts = re.findall(rb"(?im)^host:[ \t]*([^\r\n]*)", head)
        is_host = all(re.fullmatch(rb"[A-Za-z0-9.-]+(:\d{0,5})?", host) for host in hosts)
        is_bad_host = not is_host or len(hosts) > 1 or not hosts and b"HTTP/1.0" not in head
        if re.search(pattern, head) if pattern else is_bad_host:
            return name
    if re.match(rb"[A-Z]+ http:", head):
        return "an absolute target that Host contradicts"
    if hosts and not re.match(rb"127\.\d+\.\d+\.\d+(:|$)", hosts[0]):
        return "a Host that is not this machine"
    return "something else, mostly in a chunked body"


def mutated(mutants):
    text = "| sopan | peer | nginx | haproxy |\n|---|---|---|---|\n"
    pairs = {name: list(zip(mutants["sopan"]["mutants"], mutants[name]["mutants"])) for name in ("nginx", "haproxy")}
    counts = {name: Counter((kind_of(a[0]), kind_of(b[0])) for a, b in both) for name, both in pairs.items()}
    kinds = ("forwarded", "refused", "waited for")
    for key in ((ours, theirs) for ours in kinds for theirs in kinds):
        text += f"| {key[0]} | {key[1]} | {counts['nginx'][key]:,} | {counts['haproxy'][key]:,} |\n"
    bad = {name: sum(result["unclean"].values()) for name, result in mutants.items()}
    text += f"\nMalformed in what reached the upstream: {', '.join(f'{name} {count:,}' for name, count in bad.items())}.\n"
    text += "\nWhat sopan refuses and the peer forwards, by the first cause that a simple look at the head finds:\n\n"
    text += "| cause | nginx | haproxy |\n|---|---|---|\n"
    refused = ("refused", "forwarded")
    causes = {name: Counter(cause(a[2]) for a, b in both if (kind_of(a[0]), kind_of(b[0])) == refused)
              for name, both in pairs.items()}
    for name in sorted({*causes["nginx"], *causes["haproxy"]}, key=lambda one: -causes["haproxy"][one]):
        text += f"| {name} | {causes['nginx'][name]:,} | {causes['haproxy'][name]:,} |\n"
    return text


if __name__ == "__main__":
    main()
