#!/usr/bin/env python3
"""Whether four instances keep one limit together through Redis, and what becomes of it while Redis fails.

    bench/instances.py                 # all rows, about nine minutes; writes docs/instances-faults.md
    bench/instances.py killed flushed  # only these, printed and not written
    bench/instances.py --seconds 10    # a shorter first row

Four real processes share 200/s burst 20. 2, 8, 32 and 128 connections ask them as fast as they can, and the log of the fake API
says what arrived. First nothing happens, and the API enforces the same limit; then, once for each fault, the API only counts.
Exits with 1 if a row is not as docs/instances-faults.md says it must be. SOPAN=path/to/sopan takes another build, KEEP=folder
keeps logs and arrivals of faults.
"""
import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import threading
import time
import urllib.request
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Callable

from harness import ROOT, SOPAN, Folder, Program, free_port, machine
from redis_servers import Guarded, Redis, Way

RATE, BURST = 200, 20
LIMIT = f"{RATE}/s burst {BURST}"
# As much less as two clocks may differ (`rate_margin`).
MARGIN = 0.999
CONNECTIONS = (2, 8, 32, 128)
GRACE = 10
# Before a fault all is as it should be for so long, the first second of which is not looked at.
BEFORE = 6
# And so long it is looked at what became of the rate after it.
AFTER = 10
# A machine that has no time for so long shifts arrivals by more than a token, and answers of Redis beyond their timeout.
STALL = 0.02
RUNS_MAX = 3


@dataclass
class Fault:
    name: str
    means: str
    # What is done to it, which takes no time, and what is done to make it well again; between them it lasts.
    begin: Callable = lambda scene: None
    heal: Callable = lambda scene: None
    lasts: float = 0
    # How much more than the limit may arrive, in all.
    over: int = BURST
    # What of the rate must be used in the seconds after it is well again.
    used: float = 0.9
    # And while it lasts, which for most is not promised.
    during: float = 0
    # The longest that nothing may arrive.
    silence: float = 1.5
    # Which of them go away for good.
    gone: tuple = ()
    quota: tuple = ()
    # How Redis is reached: "" directly, "way" through something that can hold it up, "way-of-one" by one of them, "sentinels".
    through: str = ""
    # Whether instances may not go on together at the end.
    shared_again: bool = True


def cut_again_and_again(scene):
    for _ in range(10):
        scene.redis.cut()
        time.sleep(0.4)


def without_writes(scene):
    """A replica of nobody: it answers, and says no to what would change something."""
    scene.redis.ask("REPLICAOF", "127.0.0.1", "1")


def set_way(**what):
    def act(scene):
        vars(scene.way).update(what)
    return act


FAULTS = [
    Fault("killed", "Redis is killed (`kill -9`) and started again after 4 s; it has forgotten all", lambda s: s.redis.kill(), lambda s: s.redis.start(), 4),
    Fault("restarted", "it is killed and started again at once", lambda s: s.redis.kill(), lambda s: s.redis.start()),
    Fault("stopped", "it stands still (`SIGSTOP`)", lambda s: s.redis.stop(), lambda s: s.redis.go_on(), 5),
    Fault("stopped-long", f"it stands still for longer than `grace`, {GRACE} s", lambda s: s.redis.stop(), lambda s: s.redis.go_on(), GRACE + 4),
    Fault("scripts", "its scripts are forgotten (`SCRIPT FLUSH`)", lambda s: s.redis.ask("SCRIPT", "FLUSH"), used=0.97, over=0),
    Fault("flushed", "all is forgotten (`FLUSHALL`)", lambda s: s.redis.ask("FLUSHALL"), used=0.95),
    Fault("flushed-quota", "the same, with a quota of `600 per 5s` besides", lambda s: s.redis.ask("FLUSHALL"), quota=(600, 5), used=0.9),
    Fault("cut", "all its connections are cut, ten times in 4 s", cut_again_and_again),
    Fault("failover", "the master is killed, and sentinels let its replica take over", lambda s: s.guarded.kill_master(), through="sentinels"),
    Fault("read-only", "it refuses to write", without_writes, lambda s: s.redis.ask("REPLICAOF", "NO", "ONE"), 4),
    Fault("slow", "each of its answers takes 300 ms more than usual", set_way(delay=0.3), set_way(delay=0.0), 4, through="way"),
    Fault("lost", "packets to and from it are lost", set_way(loses=True), set_way(loses=False), 4, through="way"),
    Fault("one-cut-off", "the packets of one instance are lost, not those of the others", set_way(loses=True), set_way(loses=False), 4, through="way-of-one",
          silence=0.5),
    Fault("nonsense", "what it answers makes no sense", set_way(garbles=True), set_way(garbles=False), 4, through="way"),
    Fault("instance-killed", "one instance is killed", lambda s: s.instances[2].kill(), lasts=GRACE + 2, during=0.7, used=0.97, gone=(2,), over=0),
    Fault("instance-stopped", "one instance stands still for 3 s", lambda s: s.instances[2].stop(), lambda s: s.instances[2].go_on(), 3),
    Fault("instance-drained", "one instance is ended as usual (`SIGTERM`)", lambda s: s.instances[2].terminate(), during=0.0, used=0.95, gone=(2,), over=0),
]


class Instance:
    """A sopan."""

    def __init__(self, folder, number, up, flags):
        self.port, self.admin = free_port(), free_port()
        argv = [SOPAN, "serve", "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}", "--workers", "1",
                "--upstream", f"http://127.0.0.1:{up}", "--wait-max", "60s", *flags]
        self.log = folder / f"sopan-{number}.log"
        self.program = Program(argv, self.port, log=self.log)
        self.process = self.program.process

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self):
        self.process.terminate()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def state(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/state", timeout=10) as answer:
            return json.load(answer)

    def asked(self):
        """How often it has asked Redis about limits, and who else lives."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith("sopan_store_round_trips_total{"))

    def warnings(self):
        return [line for line in self.log.read_text(errors="replace").splitlines() if " WARN " in line or " ERROR " in line]


class Scene:
    """An API, a Redis, and instances before them."""

    def __init__(self, folder, fault=None, count=len(CONNECTIONS), shared=True, enforces=False):
        self.folder, self.redis, self.guarded, self.way = folder, None, None, None
        flags = ["--rate", LIMIT]
        if fault and fault.quota:
            flags += ["--rate", "{} per {}s".format(*fault.quota)]
        self.through = fault.through if fault else ""
        if shared:
            self.start_redis()
        up = self.up = free_port()
        limit = ["--limit", LIMIT, "--window", "bucket"] if enforces else []
        self.fake = Program([SOPAN, "fake-api", "--listen", f"127.0.0.1:{up}", *limit], up)
        redis = lambda number: ["--redis", self.redis_of(number)] if shared else []
        self.instances = [Instance(folder, number, up, [*flags, *redis(number)]) for number in range(count)]

    def start_redis(self):
        if self.through == "sentinels":
            self.guarded = Guarded(self.folder)
        self.redis = self.guarded.master if self.guarded else Redis(self.folder)
        if self.through.startswith("way"):
            self.way = Way(self.redis.port)

    def redis_of(self, number):
        """Where an instance finds it."""
        if self.guarded:
            return self.guarded.url()
        by_way = self.way and (self.through == "way" or number == 2)
        return f"redis://127.0.0.1:{(self.way if by_way else self.redis).port}"

    def arrivals(self):
        """When requests arrived, those that were refused included, and at which instance they had been."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.up}/_fake/log") as answer:
            log = json.load(answer)
        return sorted((entry["at_us"] / 1e6, int(entry["path"].partition("i=")[2].partition("&")[0]), entry["status"]) for entry in log)

    def trips(self):
        """Round trips to Redis about limits, and about stored answers."""
        if not self.redis:
            return 0, 0
        limits = sum(instance.asked() for instance in self.instances)
        return limits, self.redis.scripts() - limits

    def end(self):
        for instance in self.instances:
            instance.program.end()
        self.fake.end()
        if self.way:
            self.way.end()
        for servers in filter(None, (self.guarded or self.redis,)):
            servers.end()


class Stalls(threading.Thread):
    """How long the machine had no time for somebody who wanted to do something every 2 ms: what is late then is no fault of ours."""

    def __init__(self):
        super().__init__(daemon=True)
        self.worst, self.over = 0.0, threading.Event()

    def run(self):
        last = time.monotonic()
        while not self.over.wait(0.002):
            now = time.monotonic()
            self.worst, last = max(self.worst, now - last - 0.002), now

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def with_time(name, run, judged):
    """Runs it, and again where it is not as it must be and the machine had no time for it."""
    for more in range(RUNS_MAX, 0, -1):
        with Stalls() as stalls:
            result = run()
        wrong = judged(result)
        if not wrong or more == 1 or stalls.worst < STALL:
            return result, wrong
        print(f"{name} again: {', '.join(wrong)}; but the machine stood still for {stalls.worst * 1e3:.0f} ms", flush=True)


class Load(threading.Thread):
    """Connections that ask as fast as they are answered."""

    def __init__(self, ports, connections):
        super().__init__(daemon=True)
        self.asks = [(number, port) for number, (port, count) in enumerate(zip(ports, connections)) for _ in range(count)]
        self.over, self.seen = False, []

    def run(self):
        asyncio.run(self.all())

    async def all(self):
        await asyncio.gather(*(self.client(number, port) for number, port in self.asks))

    async def client(self, number, port):
        reader = writer = None
        turn = 0
        while not self.over:
            begun, turn = time.time(), turn + 1
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"GET /api/v1/health?i={number}&n={turn} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                status = int(head.split()[1])
                if b"connection: close" in head:
                    writer.close()
                    writer = None
            except (OSError, EOFError, IndexError) as error:
                status, writer = type(error).__name__, None
            self.seen.append((number, begun, time.time(), status))
            if status != 200:
                # Whoever cannot be asked is not asked without a pause.
                await asyncio.sleep(0.05)


def over_rate(times, rate=RATE, burst=BURST):
    """What a bucket of exactly this limit would have refused, without a pause for it."""
    level, last, refused = float(burst), times[0] if times else 0, []
    for at in times:
        level, last = min(burst, level + (at - last) * rate), at
        if level >= 1:
            level -= 1
        else:
            refused.append(at)
    return refused


def over_quota(times, count, span):
    """The same of a sliding window."""
    admitted, refused = deque(), []
    for at in times:
        while admitted and admitted[0] <= at - span:
            admitted.popleft()
        if len(admitted) < count:
            admitted.append(at)
        else:
            refused.append(at)
    return refused


def needed_bucket(times, rate=RATE):
    """The smallest burst of a bucket of this rate that lets all through."""
    need = level = 0.0
    for at, last in zip(times, [times[0], *times]):
        level = max(0.0, level - (at - last) * rate) + 1
        need = max(need, level)
    return need


def lateness(times):
    """How long after their instants requests arrived, in ms, over the schedule that all instances together have.

    Its instants are one interval apart. Where its grid lies is seen from those that came first on it, in every second anew,
    since the grid moves when a turn was not used in time.
    """
    interval, late = 1 / (RATE * MARGIN), []
    for at in range(0, len(times) - RATE, RATE):
        phases = sorted(one % interval for one in times[at:at + RATE])
        gaps = [(later - earlier, later) for earlier, later in zip(phases, phases[1:] + [phases[0] + interval])]
        first = max(gaps)[1]
        late += [(phase - first) % interval * 1e3 for phase in phases]
    return late


def within(times, begin, end):
    return [at for at in times if begin <= at < end]


def used(times, begin, end):
    """What of the rate was used."""
    return len(within(times, begin, end)) / ((end - begin) * RATE)


def jain(counts):
    return sum(counts) ** 2 / len(counts) / sum(count * count for count in counts)


@dataclass
class Plain:
    """What came of a load while nothing happened."""

    used: float
    over: int
    bucket: float
    limited: int
    failed: Counter
    # A request, about limits and about stored answers.
    trips: tuple
    shares: list
    late: float
    late_p99: float


def plain(count, shared, seconds):
    connections = CONNECTIONS if count > 1 else (sum(CONNECTIONS),)
    with Folder() as folder:
        scene = Scene(folder, count=count, shared=shared, enforces=True)
        load = Load([instance.port for instance in scene.instances], connections)
        try:
            load.start()
            time.sleep(2)
            begun, trips, arrived = time.time(), scene.trips(), len(scene.arrivals())
            time.sleep(seconds)
            ended, log = time.time(), scene.arrivals()
            trips = [after - before for before, after in zip(trips, scene.trips())]
            arrived = len(log) - arrived
            load.over = True
            load.join(60)
        finally:
            scene.end()
    times = [at for at, *_ in log]
    steady = within(times, begun, ended)
    shares = Counter(number for at, number, _ in log if begun <= at < ended)
    late = sorted(lateness(steady))
    return Plain(used(times, begun, ended), len(over_rate(times)), needed_bucket(times), sum(status == 429 for *_, status in log),
                 Counter(status for *_, status in load.seen if status != 200), tuple(count / arrived for count in trips),
                 [shares[number] / len(steady) for number in range(count)], statistics.median(late), late[len(late) * 99 // 100])


@dataclass
class Side:
    """One process without Redis beside four that share, in turns, since the machine is not equally busy all the time."""

    alone: Plain
    shared: Plain
    # p50 of lateness of both, in ms, of each round.
    late: list

    def later(self):
        return statistics.median(shared - alone for alone, shared in self.late)


def side_by_side(seconds):
    late = []
    for last in (False, False, True):
        span = seconds if last else seconds / 3
        alone, shared = plain(1, False, seconds / 3), plain(len(CONNECTIONS), True, span)
        late.append((alone.late, shared.late))
    return Side(alone, shared, late)


def judge_plain(side):
    shared, wrong = side.shared, []
    if shared.used < 0.98:
        wrong.append(f"{shared.used:.1%} of the limit used")
    for what, count in (("arrivals over the limit", shared.over), ("answers 429", shared.limited), ("requests failed", sum(shared.failed.values()))):
        if count:
            wrong.append(f"{count} {what}")
    if shared.trips[0] > 0.2:
        wrong.append(f"{shared.trips[0]:.3f} round trips a request")
    if side.later() > 0.3:
        wrong.append(f"p50 of lateness {side.later():.2f} ms above that of one alone: {side.late}")
    if any(abs(share * len(CONNECTIONS) - 1) > 0.1 for share in shared.shares):
        wrong.append(f"shares {', '.join(f'{share:.1%}' for share in shared.shares)}")
    return wrong


@dataclass
class Row:
    fault: Fault
    over: int = 0
    over_before: int = 0
    over_quota: int = 0
    before: float = 0
    during: float | None = None
    after: float = 0
    after_early: float = 0
    silence: float = 0
    slowest: float = 0
    failed: Counter = field(default_factory=Counter)
    warnings: int = 0
    modes: list = field(default_factory=list)
    wrong: list = field(default_factory=list)


def play(fault):
    with Folder() as folder:
        scene = Scene(folder, fault)
        load = Load([instance.port for instance in scene.instances], CONNECTIONS)
        try:
            load.start()
            time.sleep(BEFORE)
            begun = time.time()
            fault.begin(scene)
            time.sleep(max(0, begun + fault.lasts - time.time()))
            fault.heal(scene)
            healed = time.time()
            time.sleep(AFTER)
            ended = time.time()
            row = look(fault, scene, load, begun, healed, ended)
        finally:
            load.over = True
            scene.end()
            if keep := os.environ.get("KEEP"):
                shutil.copytree(folder, f"{keep}/{fault.name}", dirs_exist_ok=True)
        load.join(60)
    return row


def look(fault, scene, load, begun, healed, ended):
    log = scene.arrivals()
    (scene.folder / "arrivals.json").write_text(json.dumps({"begun": begun, "healed": healed, "log": log}))
    times = [at for at, *_ in log]
    row = Row(fault)
    refused = over_rate(times)
    row.over, row.over_before = len(refused), len(within(refused, 0, begun))
    if fault.quota:
        row.over_quota = len(over_quota(times, *fault.quota))
    rate = fault.quota[0] / fault.quota[1] / RATE if fault.quota else 1
    row.before = used(times, begun - BEFORE + 1, begun) / rate
    row.during = used(times, begun, healed) / rate if healed - begun > 0.5 else None
    row.after, row.after_early = used(times, healed, ended) / rate, used(times, healed, healed + 3) / rate
    steady = within(times, begun - BEFORE + 1, ended)
    row.silence = max(later - earlier for earlier, later in zip(steady, steady[1:]))
    others = [one for one in load.seen if one[0] not in fault.gone]
    row.failed = Counter(status for *_, status in others if status != 200)
    row.slowest = max(end - begin for _, begin, end, _ in others)
    rest = [instance for number, instance in enumerate(scene.instances) if number not in fault.gone]
    row.warnings = max(len(instance.warnings()) for instance in rest)
    row.modes = [instance.state()["store"]["mode"] for instance in rest]
    return row


def judge(row):
    """What is not as it must be, in words."""
    fault, wrong = row.fault, []
    if row.over_before:
        wrong.append(f"{row.over_before} over the limit before anything happened")
    if row.over > fault.over:
        wrong.append(f"{row.over} over the limit")
    if fault.quota and row.over_quota > fault.quota[0]:
        wrong.append(f"{row.over_quota} over the quota")
    if row.after < fault.used:
        wrong.append(f"{row.after:.1%} of the rate used afterwards")
    if row.during is not None and row.during < fault.during:
        wrong.append(f"{row.during:.1%} of the rate used meanwhile")
    if row.silence > fault.silence + (fault.quota[1] if fault.quota else 0):
        wrong.append(f"nothing arrived for {row.silence:.1f} s")
    if row.failed:
        wrong.append(f"failed: {dict(row.failed)}")
    if row.warnings > 4:
        wrong.append(f"{row.warnings} warnings in one log")
    if fault.shared_again and set(row.modes) != {"shared"}:
        wrong.append(f"at the end {row.modes}")
    return wrong


def percent(share):
    return f"{share * 100:.1f} %"


def plain_table(side):
    alone, shared = side.alone, side.shared
    lines = ["| | one process, no Redis | four, through Redis | must be |", "|---|---|---|---|"]
    shares = ", ".join(percent(share) for share in shared.shares)
    rows = [
        ("of the limit used", percent(alone.used), percent(shared.used), "≥ 98 %"),
        ("arrivals over the limit, in any span", alone.over, shared.over, "0"),
        ("smallest bucket that lets all through", f"{alone.bucket:.1f}", f"{shared.bucket:.1f}", f"≤ {BURST}"),
        ("answers with 429", alone.limited, shared.limited, "0"),
        ("requests that failed", sum(alone.failed.values()), sum(shared.failed.values()), "0"),
        ("round trips to Redis a request, about the limit", "", f"{shared.trips[0]:.3f}", "≤ 0.2"),
        ("and about [stored answers](instances.md), where all ask for different ones", "", f"{shared.trips[1]:.3f}", ""),
        ("arrival after its instant, p50; of three rounds", *(", ".join(f"{late:.2f}" for late in of) + " ms" for of in zip(*side.late)),
         f"≤ 0.3 ms more, is {side.later():.2f}"),
        ("the same, p99, of the last", f"{alone.late_p99:.2f} ms", f"{shared.late_p99:.2f} ms", ""),
        (f"what each got, with {', '.join(map(str, CONNECTIONS))} connections", "", shares, "25 % ± 2.5 %"),
    ]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def faults_table(rows):
    lines = ["| what happens | for | over the limit | used meanwhile | used in the 10 s after | in the first 3 of them | longest pause | failed |",
             "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        fault = row.fault
        lasts = f"{fault.lasts:g} s" if fault.lasts else ""
        over = f"{row.over} (≤ {fault.over})"
        if fault.quota:
            over += f"; of the quota {row.over_quota} (≤ {fault.quota[0]})"
        during = "" if row.during is None else percent(row.during) + (f" (≥ {fault.during * 100:.0f} %)" if fault.during else "")
        after = f"{percent(row.after)} (≥ {fault.used * 100:.0f} %)"
        lines.append(f"| {fault.means} | {lasts} | {over} | {during} | {after} | {percent(row.after_early)} | {row.silence:.2f} s "
                     f"| {sum(row.failed.values())}{' **not as it must be**' if row.wrong else ''} |")
    return "\n".join(lines)


def page(side, rows, seconds):
    return f"""# When Redis fails

Four instances of sopan share `{LIMIT}` [through Redis](instances.md). {', '.join(map(str, CONNECTIONS[:-1]))} and {CONNECTIONS[-1]} connections ask
them as fast as they are answered; what arrives at the API is judged by a bucket of exactly that limit. For {seconds:g} s nothing
happens, and the API enforces it:

{plain_table(side)}

An instant is where the schedule of all of them has a turn: the grid is read off the arrivals that came first on it.

Then, once for each line, something happens to Redis or to an instance, and {AFTER} s after it has ended it is all over. What is
over the limit is what a strict API would have refused, of all that arrived in some 20 to 30 s. In parentheses what it must be.
Of every line it holds too that no request fails, that nobody is left without Redis at the end, and that no instance writes more
than four warnings.

{faults_table(rows)}

Where Redis cannot be asked, an instance uses the turns that it has, waits until the others must have noticed too (1.2 s after it
was last answered), and goes on at its share. That is the pause, and most of what is not used meanwhile.

`bench/instances.py` repeats it, in about nine minutes, and writes this page; `bench/instances.py killed flushed` plays two lines of
it. It needs `redis-server`, `python3` and `cargo build --release`. A shorter set is a test
(`crates/sopan/tests/it/serve/timed/instances.rs`).
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(["plain", *(fault.name for fault in FAULTS)]))
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    known = {"plain", *(fault.name for fault in FAULTS)}
    if unknown := set(args.names) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    wanted, wrong = set(args.names) or known, {}
    print(machine(), flush=True)
    if "plain" in wanted:
        side, wrong["plain"] = with_time("plain", lambda: side_by_side(args.seconds), judge_plain)
        print(plain_table(side), flush=True)
    rows = []
    for fault in FAULTS:
        if fault.name in wanted:
            row, row.wrong = with_time(fault.name, lambda: play(fault), judge)
            rows.append(row)
            wrong[fault.name] = row.wrong
            print(faults_table(rows[-1:]) if len(rows) == 1 else faults_table(rows[-1:]).splitlines()[-1], flush=True)
    if wanted == known:
        (ROOT / "docs/instances-faults.md").write_text(page(side, rows, args.seconds))
        print("written: docs/instances-faults.md")
    print(machine())
    for name, whats in wrong.items():
        for what in whats:
            print(f"WRONG {name}: {what}")
    if any(wrong.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
