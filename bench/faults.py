#!/usr/bin/env python3
"""What an API's faults come to behind sopan: what callers get, when the breaker opens, and that all recovers by itself.

    bench/faults.py                    # all faults, about two minutes; writes docs/faults.md
    bench/faults.py stopped 429-date   # only these, printed and not written

Every row is a sopan and an API (faulty.py) of its own, and ten GET and 2.5 POST a second, whatever became of those before. All
is well at first; then the fault lasts for its time; then all is well again, and it is asked on until it has recovered. Exits
with 1 if a row is not as docs/faults.md says it must be. SOPAN=path/to/sopan takes another build.
"""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness import ROOT, SOPAN, Folder, Program, free_port, machine

# Spans that a table need not wait for are shorter than by default; breaker, retries and the line are as they come.
ATTEMPT, IDLE, TOTAL, CONNECT = 2, 2, 20, 1
FLAGS = ["--rate", "200/s burst 20", "--attempt-timeout", f"{ATTEMPT}s", "--idle-timeout", f"{IDLE}s", "--total-timeout", f"{TOTAL}s",
         "--connect-timeout", f"{CONNECT}s", "--max-hold", "4s", "--workers", "2"]
# Spec: the breaker opens when failures in a row span 5 s, and lets a probe out after 10 s.
MIN_SPAN, OPEN_FOR = 5, 10
# How much later than it should a thing may be seen on a busy machine.
LATE = 1.0
SETTLE = 1.0
AT_ONCE = 6


@dataclass
class Fault:
    name: str
    means: str
    # What a GET and a POST may come to while it lasts, the first of them must be seen.
    get: tuple
    post: tuple
    # How long it lasts, and the longest that anybody may wait for an answer meanwhile.
    lasts: float
    waits: float
    # How soon after it all is well again.
    back: float
    # How often a GET is sent, at most and at least once.
    attempts: int = 4
    # When the breaker opens at the latest, counted from the fault; 0 never.
    opens: float = 0
    # What the API asks for, within which nothing arrives.
    hold: float = 0
    # Whether the API may see the same POST more than once.
    repeats_post: bool = False
    # What is done to the API, where it is not a mode of faulty.py of this name.
    act: str = ""


OPEN = "503 breaker-open"
BACK = OPEN_FOR + ATTEMPT + LATE


def outage(name, means, error, each=0.0, **more):
    """A fault that fails every attempt after so long, four times for a GET, and opens the breaker.

    Where that takes longer than 5 s, no GET comes to its end before: it waits for the probe.
    """
    # The failure that opens it may be the one that began just before, and there may be a backoff of 2.5 s between two.
    given = dict(lasts=9, waits=TOTAL + LATE, back=BACK, opens=MIN_SPAN + each + 2.5 + LATE)
    both = (error, OPEN)
    return Fault(name, means, **{"get": both[::-1] if each else both, "post": both, **given, **more})


def pause(name, means, hold, **more):
    """A fault that asks everybody to wait: nobody fails."""
    given = dict(lasts=1, waits=3 * hold + 3, back=2 * hold + 2, hold=hold, repeats_post=True)
    return Fault(name, means, ("200",), ("200",), **{**given, **more})


def cut(name, means, each=0.0, **more):
    """A fault behind the head: what came is passed on, and never looks whole. In between there are good heads, so the breaker opens by share."""
    given = dict(attempts=1, lasts=9, waits=each + LATE, back=BACK, opens=MIN_SPAN + each + 2.5 + LATE)
    return Fault(name, means, ("200 cut", OPEN), ("200 cut", OPEN), **{**given, **more})


TERMINATED, GARBAGE, LATE_HEAD = "502 connection_terminated", "502 http_protocol_error", "504 http_response_timeout"
FAULTS = [
    Fault("stopped-briefly", "the API's process stands still (SIGSTOP)", ("200",), ("200",), 1, 1 + LATE, LATE, attempts=1, act="stop"),
    Fault("stopped", "it stands still", ("200",), (LATE_HEAD, "200"), 5, 5 + 3.5 + LATE, 3.5 + LATE, act="stop"),
    outage("stopped-long", "it stands still for longer", LATE_HEAD, each=ATTEMPT, lasts=12, act="stop"),
    outage("killed", "it is killed: connections are refused", "502 connection_refused", act="kill"),
    Fault("restarted", "it is restarted", ("200",), ("200", TERMINATED), 1, 3.5 + LATE, 3.5 + LATE, act="kill"),
    outage("unreachable", "connections to it do not come about", "504 connection_timeout", each=CONNECT, act="block",
           post=(OPEN, "504 connection_timeout")),
    outage("reset-at-once", "it resets connections at once", TERMINATED),
    outage("reset-in-head", "it resets them within the head of its answer", TERMINATED),
    outage("close-in-head", "it closes them there", TERMINATED),
    outage("garbage", "what it answers is not HTTP", GARBAGE),
    outage("two-lengths", "its answers have two different lengths", GARBAGE),
    outage("endless-head", "a head that never ends", "502 http_response_header_section_size"),
    outage("endless-line", "a line of the head that never ends", "502 http_response_header_section_size"),
    outage("endless-interims", "interim answers (103) without end", GARBAGE, each=ATTEMPT),
    outage("slow-head", "heads come by 5 bytes a second", LATE_HEAD, each=ATTEMPT, lasts=12),
    outage("silent", "it takes requests and says nothing", LATE_HEAD, each=ATTEMPT, lasts=12),
    cut("reset-in-body", "it resets connections within the body"),
    cut("close-in-body", "it closes them there"),
    cut("bad-chunk", "a chunk of the body has no size"),
    cut("stalled-body", "bodies come to a halt", each=IDLE, lasts=12),
    Fault("slow-body", "bodies come slowly, but come", ("200",), ("200",), 4, 1 + LATE, LATE, attempts=1),
    Fault("more-than-promised", "behind each answer comes another that nobody asked for", ("200",), ("200",), 4, LATE, LATE, attempts=1),
    pause("429-seconds", "429 with `Retry-After: 2`", 2),
    pause("429-date", "429 with a date 3 s ahead", 2),
    Fault("429-absurd", "429 with `Retry-After: 1999999999`", ("429", "200"), ("200", "429"), 1, 4 + LATE, 4 + LATE, attempts=1, hold=4),
    pause("429-unusable", "429 with `Retry-After: soon`", 0.375, attempts=4, waits=6 + LATE, back=4 + LATE),
    outage("503", "503 without a field", "503"),
    pause("503-seconds", "503 with `Retry-After: 2`", 2),
    outage("500", "500", "500"),
    outage("two-of-three", "two of three answers are 500", "500"),
]


class Api:
    """faulty.py on a port, which can be stopped, killed, kept from accepting, and begun again."""

    def __init__(self):
        self.port, self.log, self.blocking = free_port(), [], []
        self.start()

    def start(self):
        argv = [sys.executable, str(Path(__file__).with_name("faulty.py")), str(self.port)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(400):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.025)
        raise SystemExit("the API does not start")

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def begin(self, fault):
        act = fault.act or "mode"
        if act == "mode":
            self.say(fault.name)
        elif act == "stop":
            self.process.send_signal(signal.SIGSTOP)
        else:
            self.end()
            if act == "block":
                self.block()

    def heal(self, fault):
        act = fault.act or "mode"
        if act == "mode":
            self.say("good")
        elif act == "stop":
            self.process.send_signal(signal.SIGCONT)
        else:
            for held in self.blocking:
                held.close()
            self.start()

    def block(self):
        """A queue of connections that is full: the kernel answers no more of them."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(0)
        self.blocking = [listener]
        for _ in range(3):
            held = socket.socket()
            held.setblocking(False)
            held.connect_ex(("127.0.0.1", self.port))
            self.blocking.append(held)

    def arrivals(self):
        self.say("log")
        return self.log + json.loads(self.process.stdout.readline())

    def end(self):
        if self.process.poll() is None:
            self.log = self.arrivals()
            self.process.kill()
        self.process.wait()


@dataclass
class Proxy:
    program: Program
    port: int
    admin: int
    process: int = field(init=False)

    def __post_init__(self):
        self.process = self.program.process.pid

    def state(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/state", timeout=10) as answer:
            return json.load(answer)

    def descriptors(self):
        """Those that are open, without timers, of which every thread keeps up to 64 for the next who waits."""
        return sum(not self.leads_to(number).endswith("[timerfd]") for number in os.listdir(f"/proc/{self.process}/fd"))

    def leads_to(self, number):
        try:
            return os.readlink(f"/proc/{self.process}/fd/{number}")
        except OSError:
            return "closed meanwhile"

    def threads(self):
        return len(os.listdir(f"/proc/{self.process}/task"))

    def peak_mib(self):
        lines = Path(f"/proc/{self.process}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


@dataclass
class Seen:
    """One answer to a caller."""

    method: str
    begun: float
    ended: float
    what: str
    attempts: int
    retry_after: str | None


def ask(connection, method, target):
    """What an answer comes to, in two words, after how many attempts, and when to come again."""
    connection.request(method, target, body="{}" if method == "POST" else None)
    answer = connection.getresponse()
    timing = answer.getheader("server-timing") or ""
    attempts = int(timing.rpartition('attempts;desc="')[2].split('"')[0] or 0) if "attempts" in timing else 0
    try:
        body = answer.read()
    except (http.client.HTTPException, OSError):
        return f"{answer.status} cut", attempts, None
    if answer.getheader("content-type") != "application/problem+json":
        return str(answer.status), attempts, None
    error = (answer.getheader("proxy-status") or "").partition("error=")[2].partition(";")[0]
    kind = json.loads(body)["type"].rpartition(":")[2]
    is_failure = kind in ("upstream-failed", "upstream-timeout", "total-timeout") and error
    return f"{answer.status} {error if is_failure else kind}", attempts, answer.getheader("retry-after")


class Answer(http.client.HTTPResponse):
    """Passes over interim answers, of which the library knows only 100."""

    def _read_status(self):
        while True:
            version, status, reason = super()._read_status()
            if not 100 < status < 200:
                return version, status, reason
            http.client.parse_headers(self.fp)


class Connection(http.client.HTTPConnection):
    response_class = Answer


class Callers(threading.Thread):
    """Somebody who asks with this method every so many seconds, whatever became of the last request; connections are used again."""

    def __init__(self, proxy, method, every, over):
        super().__init__(daemon=True)
        self.proxy, self.method, self.every, self.over = proxy, method, every, over
        self.idle, self.asking, self.seen = [], [], []

    def run(self):
        count, due = 0, time.monotonic()
        while not self.over.wait(max(0, due - time.monotonic())):
            count, due = count + 1, due + self.every
            thread = threading.Thread(target=self.ask_once, args=(f"/{self.method}/{count}",), daemon=True)
            self.asking.append(thread)
            thread.start()
        for thread in self.asking:
            thread.join()
        for connection, _ in self.idle:
            connection.close()

    def ask_once(self, target):
        # One that was idle for long may be closed just as it is used again.
        kept, since = self.idle.pop() if self.idle else (None, 0)
        connection = kept if time.monotonic() - since < IDLE / 2 else Connection("127.0.0.1", self.proxy.port, timeout=60)
        begun = time.monotonic()
        try:
            what, attempts, retry_after = ask(connection, self.method, target)
        except (http.client.HTTPException, OSError) as error:
            what, attempts, retry_after = f"no answer: {type(error).__name__}", 0, None
        self.seen.append(Seen(self.method, begun, time.monotonic(), what, attempts, retry_after))
        if what.endswith("cut") or what.startswith("no answer"):
            connection.close()
        else:
            self.idle.append((connection, time.monotonic()))


class Watch(threading.Thread):
    """Looks at /state again and again: when the breaker is seen in which state."""

    def __init__(self, proxy, over):
        super().__init__(daemon=True)
        self.proxy, self.over, self.states, self.most_waiting = proxy, over, [], 0

    def run(self):
        while not self.over.wait(0.05):
            upstream = self.proxy.state()["upstreams"][0]
            self.most_waiting = max(self.most_waiting, upstream["queue"]["waiting"])
            self.states.append((time.monotonic(), upstream["breaker"]["state"]))


def at_rest(proxy, base):
    """What is not as it was at the start; nothing when all is given back."""
    descriptors, threads, state = proxy.descriptors(), proxy.threads(), proxy.state()
    upstream = state["upstreams"][0]
    now = {
        "waiting": upstream["queue"]["waiting"],
        "bytes waiting": upstream["queue"]["bytes"],
        "under way": upstream["places"]["used"],
        "breaker": upstream["breaker"]["state"],
        "connections": state["connections"]["open"],
        "descriptors": descriptors,
        "threads": threads,
    }
    return {name: value for name, value in now.items() if value != base.get(name, 0)}


def run(fault):
    """A row of the table: what was seen, and what of it must not be."""
    api = Api()
    port, admin = free_port(), free_port()
    argv = [SOPAN, "serve", "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}", "--upstream", f"http://127.0.0.1:{api.port}", *FLAGS]
    with Folder() as folder, Program(argv, port, log=folder / "log") as program:
        try:
            return fault, *play(fault, api, Proxy(program, port, admin))
        finally:
            for held in api.blocking:
                held.close()
            api.process.kill()
            api.process.wait()


def play(fault, api, proxy):
    time.sleep(0.3)
    base = {"descriptors": proxy.descriptors(), "threads": proxy.threads(), "breaker": "closed"}
    over = threading.Event()
    callers = [Callers(proxy, "GET", 0.1, over), Callers(proxy, "POST", 0.4, over)]
    watch = Watch(proxy, over)
    for thread in [*callers, watch]:
        thread.start()
    time.sleep(SETTLE)
    api.begin(fault)
    begun = time.monotonic()
    time.sleep(fault.lasts)
    api.heal(fault)
    healed = time.monotonic()
    seen = lambda: [one for caller in callers for one in caller.seen]
    # All is well when the breaker is closed, and as many as come in a second have had good answers, one after the other.
    deadline = healed + fault.back + 10
    while time.monotonic() < deadline:
        time.sleep(0.05)
        last = sorted((one for one in seen() if one.ended > healed), key=lambda one: one.ended)[-12:]
        if len(last) == 12 and all(one.what == "200" for one in last) and watch.states[-1][1] == "closed":
            break
    time.sleep(1)
    over.set()
    for thread in [*callers, watch]:
        thread.join(60)
    stopped, left = time.monotonic(), None
    while left is None or left and time.monotonic() < stopped + IDLE + 6:
        # What is looked at here is a connection too, which needs a moment to be gone.
        time.sleep(0.3)
        left = at_rest(proxy, base)
    rest = time.monotonic() - stopped
    during = [one for one in seen() if one.ended > begun and one.begun < healed]
    later = [one for one in seen() if one.ended > healed]
    back = min((one.ended for one in later if one.what == "200"), default=None)
    # Who was told by the breaker to come again later has not been told otherwise yet.
    well = max((one.ended for one in later if one.what != "200"), default=healed)
    opened = next((at - begun for at, state in watch.states if state != "closed" and at > begun), None)
    result = {
        "get": Counter(one.what for one in during if one.method == "GET"),
        "post": Counter(one.what for one in during if one.method == "POST"),
        "attempts": max((one.attempts for one in during if one.method == "GET"), default=0),
        "waits": max(one.ended - one.begun for one in during),
        "opened": opened,
        "back": None if back is None else back - healed,
        "well": well - healed,
        "rest": rest,
        "refused": [one for one in seen() if one.what == OPEN],
        "peak": proxy.peak_mib(),
    }
    return result, judge(fault, result, left, api.arrivals())


def judge(fault, result, left, arrivals):
    """What is not as it must be, in words."""
    wrong = []
    for name in ("get", "post"):
        expected, got = getattr(fault, name), result[name]
        if expected[0] not in got:
            wrong.append(f"no {name.upper()} came to {expected[0]}")
        wrong += [f"{name.upper()} came to {what}" for what in got if what not in (*expected, "200")]
    if result["attempts"] > fault.attempts:
        wrong.append(f"a GET was sent {result['attempts']} times")
    if result["waits"] > fault.waits:
        wrong.append(f"a caller waited for {result['waits']:.1f} s")
    not_at_once = [one for one in result["refused"] if one.ended - one.begun > LATE or not 1 <= int(one.retry_after or 0) <= OPEN_FOR]
    if not_at_once:
        wrong.append(f"refused by the breaker, but not so: {not_at_once[:3]}")
    opened = result["opened"]
    if fault.opens:
        if opened is None or not MIN_SPAN - 0.05 <= opened <= fault.opens:
            wrong.append(f"the breaker opened after {opened}")
    elif opened is not None:
        wrong.append(f"the breaker opened after {opened:.1f} s")
    if result["back"] is None or result["back"] > fault.back:
        wrong.append(f"well again after {result['back']}")
    if left:
        wrong.append(f"not given back: {left}")
    if result["well"] > fault.back:
        wrong.append(f"still not well after {result['well']:.1f} s")
    if result["peak"] > 64:
        wrong.append(f"{result['peak']:.0f} MiB of memory")
    sent = Counter((method, target) for _, method, target, mode in arrivals)
    most = {method: max((count for (of, _), count in sent.items() if of == method), default=0) for method in ("GET", "POST")}
    if most["POST"] > 1 and not fault.repeats_post:
        wrong.append(f"a POST arrived {most['POST']} times")
    # One more where a connection was closed just as it was used again.
    if most["GET"] > fault.attempts + 1 and fault.act == "":
        wrong.append(f"a GET arrived {most['GET']} times")
    if fault.hold:
        wrong += breaks_of(fault, arrivals)
    return wrong


def breaks_of(fault, arrivals):
    """What arrived within the pause that was asked for; not what was under way already."""
    asked = sorted(at for at, _, _, mode in arrivals if mode == fault.name)
    if not asked:
        return ["nothing arrived in the fault"]
    early = [at - asked[0] for at, *_ in arrivals if asked[0] + 0.15 < at < asked[0] + fault.hold]
    return [f"{len(early)} arrived within the pause, the first after {early[0]:.2f} s"] if early else []


SAID = {
    "502 connection_refused": "502, nobody listens", "504 connection_timeout": "504, no connection", TERMINATED: "502, closed", GARBAGE: "502, no HTTP",
    "502 http_response_header_section_size": "502, head too large", LATE_HEAD: "504, no answer", OPEN: "503 at once", "200 cut": "200 that breaks off",
}


def told(counts):
    return "<br>".join(f"{SAID.get(what, what)}: {count}" for what, count in sorted(counts.items()))


def report(rows):
    lines = ["| fault | for | GET | POST | a GET is sent | longest wait | breaker | well again |", "|---|---|---|---|---|---|---|---|"]
    for fault, result, wrong in rows:
        breaker = "stays closed" if result["opened"] is None else f"opens after {result['opened']:.1f} s (≤ {fault.opens:.1f} s)"
        back = "never" if result["back"] is None else f"{max(result['back'], result['well']):.1f} s (≤ {fault.back:.1f} s)"
        lines.append(f"| {fault.means} | {fault.lasts} s | {told(result['get'])} | {told(result['post'])} | {times(result['attempts'])}{at_most(fault, result)} "
                     f"| {result['waits']:.1f} s (≤ {fault.waits:.1f} s) | {breaker} | {back}{' **not as it must be**' if wrong else ''} |")
    return "\n".join(lines)


def times(count):
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def at_most(fault, result):
    return "" if fault.attempts == result["attempts"] else f" (≤ {fault.attempts})"


def page(rows):
    rest, peak = (max(result[name] for _, result, _ in rows) for name in ("rest", "peak"))
    return f"""# When the API fails

What {len(rows)} faults of an API come to behind sopan, as `bench/faults.py` played them: each to a sopan and an API of its own, which
gets ten GET and 2.5 POST a second, whatever became of those before. All is well for a second, the fault lasts for its time, and then
all is well again. In brackets stands what must be, by what [running it](proxy.md#riding-out-an-outage) promises; the script fails
where it is not.

Breaker, retries and line are as they come: four attempts with 0.5, 1 and 2 s between them, ten failures in a row or half of
twenty that span 5 s, a probe every 10 s. For the sake of the script an attempt has {ATTEMPT} s, a connection {CONNECT} s, a silent body {IDLE} s, a
request {TOTAL} s in all, and no pause is longer than 4 s (`attempt_timeout`, `connect_timeout`, `idle_timeout`, `total_timeout`, `max_hold`).

Of every row it holds that

- no POST arrives twice which the API may have acted on, and no answer that broke off looks whole;
- while an API asks for a pause (429, or 503 with `Retry-After`), nothing arrives there;
- who asks while the breaker is open is refused at once, with the seconds until the probe in `Retry-After`; who was trying
  already waits for it;
- it recovers by itself, and at most {rest:.1f} s after the last request nothing is left of it: nobody waits, all places, connections,
  descriptors and threads are given back (of timers, each thread keeps up to 64), and memory never was above {peak:.0f} MiB.

{report(rows)}

`bench/faults.py` repeats it, in about two minutes, and writes this page; `bench/faults.py killed garbage` plays two of them. It
needs Linux, `python3` and `cargo build --release`. A shorter set is a test (`crates/sopan/tests/it/serve/timed/outage.rs`), and
what single requests come to is one too (`crates/sopan/tests/it/serve/faults.rs`).
"""


def main():
    wanted = sys.argv[1:] or [fault.name for fault in FAULTS]
    if unknown := set(wanted) - {fault.name for fault in FAULTS}:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(fault.name for fault in FAULTS)}")
    print(machine(), flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = list(pool.map(run, [fault for fault in FAULTS if fault.name in wanted]))
    if len(rows) < len(FAULTS):
        print(report(rows))
    else:
        (ROOT / "docs/faults.md").write_text(page(rows))
        print("written: docs/faults.md")
    for fault, _, wrong in rows:
        for what in wrong:
            print(f"WRONG {fault.name}: {what}")
    if any(wrong for _, _, wrong in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
