#!/usr/bin/env python3
"""Whether anything grows: half of what sopan can pass on, for ten minutes, while everything fails now and then.

    bench/soak.py                 # ten minutes and a little; writes docs/images/soak.svg
    bench/soak.py --seconds 60    # a short one, not judged by the memory's slope

Two APIs: nginx, which is stopped, killed and begun again, and faulty.py, whose fault is another one every five seconds. Two
thirds of wrk's requests are passed on, and for one third there is a cache, far too small for what is asked for. Beside
them there are clients that leave in the middle, wrong keys, half heads, slow readers, and purges. Every second it looks at the
memory (Pss), descriptors, threads, connections and the line. Exits with 1 if the memory's slope over the last half is 1 MiB in five minutes or
more, or if anything is not given back at the end. SOPAN=path/to/sopan takes another build.
"""
import argparse
import hashlib
import http.client
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

from faulty import MODES
from harness import ROOT, SOPAN, Folder, Program, free_port, machine, nginx_upstream, wrk

KEY = "sopan_soak-0123456789abcdefghijklmnopqrstuvwxyz"
# As many as this with so much of a pause between two requests come to half of what sopan can pass on, about.
CONNECTIONS, PAUSE_MS = 256, 15
IDLE = 5
SLOPE_MAX_MIB = 1.0


def settings(good, ill, rate):
    """As they may be in earnest, but for times that are short enough to be over within ten minutes."""
    limits = f"{max(1, int(rate))}/s burst 100" if rate else "unlimited"
    return f"""
cache_size: 8MiB
idle_timeout: {IDLE}s
header_timeout: 2s
defaults:
  idle_timeout: {IDLE}s
  attempt_timeout: 1s
  total_timeout: 10s
  max_hold: 3s
  breaker: {{ open_for: 2s }}
upstreams:
  good: {{ url: 'http://127.0.0.1:{good}', limits: {limits}, queue: {{ wait_max: 5s }} }}
  ill: {{ url: 'http://127.0.0.1:{ill}', route: /ill, limits: 100/s burst 20, retry: {{ max_retries: 2, backoff_base: 100ms }} }}
clients:
  soak: {{ key_sha256: {hashlib.sha256(KEY.encode()).hexdigest()} }}
"""


# What wrk asks for: of three requests two are passed on and one is for a stored answer, of 20,000 URLs.
LUA = """
wrk.headers["Authorization"] = "Bearer {key}"
local delay_ms = {delay}
function request()
  local n = math.random(1, 20000)
  if n % 3 == 0 then return wrk.format("GET", "/stored?n=" .. n) end
  return wrk.format("GET", "/1k?n=" .. n)
end
if delay_ms > 0 then function delay() return delay_ms end end
"""


def script(folder, delay):
    path = folder / f"soak-{delay}.lua"
    path.write_text(LUA.replace("{key}", KEY).replace("{delay}", str(delay)))
    return path


class Proxy:
    def __init__(self, folder, good, ill, rate=None):
        self.port, self.admin = free_port(), free_port()
        path = folder / f"sopan-{self.port}.yaml"
        path.write_text(settings(good, ill, rate))
        argv = [SOPAN, "serve", "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}", "--config", str(path)]
        self.program = Program(argv, self.port)
        self.id = self.program.process.pid

    def state(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/state", timeout=10) as answer:
            return json.load(answer)

    def purge(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}/cache/purge", b'{"all": true}', {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=10).close()

    def kinds(self):
        """Descriptors by what they lead to."""
        found = Counter()
        for number in os.listdir(f"/proc/{self.id}/fd"):
            try:
                link = os.readlink(f"/proc/{self.id}/fd/{number}")
                # Sockets and pipes have numbers, of which none comes again.
                found[link if link.startswith(("/", "anon_inode")) else link.split(":")[0]] += 1
            except OSError:
                pass
        # Of timers every thread keeps up to 64 for the next who waits.
        found.pop("anon_inode:[timerfd]", None)
        return found

    def sample(self):
        state = self.state()
        return {
            "memory_kib": self.program.memory_kib(),
            "descriptors": len(os.listdir(f"/proc/{self.id}/fd")),
            "threads": len(os.listdir(f"/proc/{self.id}/task")),
            "connections": state["connections"]["open"],
            "waiting": sum(upstream["queue"]["waiting"] for upstream in state["upstreams"]),
            "under_way": sum(upstream["places"]["used"] for upstream in state["upstreams"]),
        }


class Trouble:
    """Everything that goes wrong meanwhile, each in a thread of its own, until it is over."""

    def __init__(self, proxy, nginx_argv, good, ill):
        self.proxy, self.nginx_argv, self.good, self.ill = proxy, nginx_argv, good, ill
        self.over, self.counts, self.marks, self.began = threading.Event(), Counter(), [], time.monotonic()
        self.nginx = Program(nginx_argv, good)
        makers = [self.fail_api, self.stop_nginx, self.guess, self.purge_often] + [self.leave] * 4 + [self.ask_ill] * 6
        self.threads = [threading.Thread(target=maker, daemon=True) for maker in makers]

    def begin(self):
        for thread in self.threads:
            thread.start()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(30)

    def note(self, what):
        self.counts[what] += 1

    def fail_api(self):
        """Another fault every five seconds, and now and then none."""
        modes = [mode for mode in MODES if mode != "429-absurd"] + ["mixed", "good", "good"]
        while not self.over.is_set():
            mode = random.choice(modes)
            self.ill.stdin.write(mode + "\n")
            self.ill.stdin.flush()
            self.note(f"fault {mode}")
            self.over.wait(5)

    def stop_nginx(self):
        """Half a second of standing still every 20 s, and every fourth time it is killed for as long."""
        count = 0
        while not self.over.wait(20):
            count += 1
            self.marks.append(time.monotonic() - self.began)
            if count % 4 == 0:
                self.nginx.end()
                self.over.wait(0.5)
                self.nginx = Program(self.nginx_argv, self.good)
                self.note("nginx killed")
                continue
            family = self.nginx.family()
            for process in family:
                os.kill(process, signal.SIGSTOP)
            self.over.wait(0.5)
            for process in family:
                os.kill(process, signal.SIGCONT)
            self.note("nginx stopped")

    def purge_often(self):
        while not self.over.wait(45):
            self.proxy.purge()
            self.note("purge")

    def guess(self):
        """Wrong keys, from addresses that are shut out one after the other."""
        count = 0
        while not self.over.wait(0.05):
            count += 1
            source = f"127.0.{count // 12 % 200 + 1}.2"
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=10, source_address=(source, 0))
                connection.request("GET", "/1k", headers={"X-Api-Key": f"guess-{count}-0123456789"})
                self.note(f"wrong key: {connection.getresponse().status}")
                connection.close()
            except OSError:
                self.note("wrong key: no answer")

    def leave(self):
        """Goes away somewhere: before, within and behind its head, while it waits, or within the answer."""
        head = f"GET /ill/leaving HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {KEY}\r\n\r\n".encode()
        post = f"POST /ill/leaving HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {KEY}\r\nContent-Length: 100000\r\n\r\n".encode() + b"x" * 5000
        while not self.over.wait(random.random() * 0.2):
            text = random.choice((head, head[:40], b"", post, head * 3))
            with socket.socket() as s:
                try:
                    s.connect(("127.0.0.1", self.proxy.port))
                    s.sendall(text)
                    s.settimeout(random.random() * 0.5 + 0.001)
                    s.recv(random.choice((1, 100, 65536)))
                except OSError:
                    pass
                if random.random() < 0.5:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.note("left")

    def ask_ill(self):
        connection = None
        while not self.over.wait(random.random() * 0.1):
            connection = connection or http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=30)
            try:
                method = random.choice(("GET", "GET", "POST"))
                connection.request(method, f"/ill/{random.randrange(1000)}", body="{}" if method == "POST" else None, headers={"X-Api-Key": KEY})
                answer = connection.getresponse()
                status = answer.status
                answer.read()
                self.note(f"ill: {status}")
            except (http.client.HTTPException, OSError):
                self.note("ill: cut")
                connection.close()
                connection = None


def slope(samples, key):
    """By least squares, in units a second."""
    times, values = [sample["at"] for sample in samples], [sample[key] for sample in samples]
    mean_t, mean_v = sum(times) / len(times), sum(values) / len(values)
    return sum((t - mean_t) * (v - mean_v) for t, v in zip(times, values)) / sum((t - mean_t) ** 2 for t in times)


def peak(folder, good, ill):
    """What it can pass on, and how many connections with a pause come to half of that."""
    proxy = Proxy(folder, good, ill)
    try:
        plain, pausing = script(folder, 0), script(folder, PAUSE_MS)
        wrk(proxy.port, "/1k", CONNECTIONS, 2, plain)
        most = max(wrk(proxy.port, "/1k", CONNECTIONS, 4, plain)["per_second"] for _ in range(2))
        return most, round(CONNECTIONS * most / 2 / wrk(proxy.port, "/1k", CONNECTIONS, 4, pausing)["per_second"])
    finally:
        proxy.program.end()


def soak(folder, seconds):
    good, ill_port = free_port(), free_port()
    nginx_argv = nginx_upstream(folder, good)
    faulty = [sys.executable, str(Path(__file__).with_name("faulty.py")), str(ill_port)]
    ill = subprocess.Popen(faulty, stdin=subprocess.PIPE, text=True)
    try:
        with Program(nginx_argv, good):
            most, connections = peak(folder, good, ill_port)
        proxy = Proxy(folder, good, ill_port, rate=most * 0.6)
        trouble = Trouble(proxy, nginx_argv, good, ill)
        try:
            return most, *watch(proxy, trouble, connections, script(folder, PAUSE_MS), seconds)
        finally:
            trouble.end()
            trouble.nginx.end()
            proxy.program.end()
    finally:
        ill.kill()
        ill.wait()


def watch(proxy, trouble, connections, lua, seconds):
    time.sleep(1)
    before = proxy.kinds(), proxy.sample()
    load = {}
    loader = threading.Thread(target=lambda: load.update(wrk(proxy.port, "/1k", connections, seconds, lua)))
    began, busy = time.monotonic(), proxy.program.cpu()
    loader.start()
    trouble.begin()
    samples = []
    while loader.is_alive():
        time.sleep(max(0.0, began + len(samples) + 1 - time.monotonic()))
        samples.append({"at": time.monotonic() - began, **proxy.sample()})
    load["cores"] = (proxy.program.cpu() - busy) / (time.monotonic() - began)
    trouble.end()
    load["state"] = proxy.state()
    # What idles is closed, and nothing else is left.
    ended, after = time.monotonic(), None
    while after is None or (left(before, after) and time.monotonic() < ended + 4 * IDLE):
        time.sleep(1)
        after = proxy.kinds(), proxy.sample()
    return load, samples, before, after, trouble


def left(before, after):
    """What is not as it was before the load, with how it was and is."""
    kinds = {kind: (before[0][kind], after[0][kind]) for kind in before[0] | after[0] if after[0][kind] > before[0][kind]}
    keys = ("threads", "connections", "waiting", "under_way")
    return {**kinds, **{key: (before[1][key], after[1][key]) for key in keys if after[1][key] != before[1][key]}}


def picture(samples, marks):
    """Memory, the line and descriptors over time, as SVG without any library."""
    width, height, left_edge, top = 720, 150, 60, 24
    rows = [("memory, MiB (Pss)", lambda s: s["memory_kib"] / 1024), ("requests waiting", lambda s: s["waiting"]), ("descriptors", lambda s: s["descriptors"])]
    total = samples[-1]["at"]
    x = lambda at: left_edge + at / total * width
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left_edge + width + 16} {len(rows) * (height + top) + 30}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#ffffff"/>']
    for row, (name, value) in enumerate(rows):
        base = (row + 1) * (height + top)
        values = [value(sample) for sample in samples]
        most = max(max(values) * 1.1, 1)
        y = lambda v: base - v / most * height
        out.append(f'<text x="{left_edge}" y="{base - height - 8}" fill="#222">{name}</text>')
        out += [f'<line x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="{base - height}" y2="{base}" stroke="#e8c8c8"/>' for mark in marks if mark <= total]
        for share in (0, 0.5, 1):
            level = most / 1.1 * share
            out.append(f'<line x1="{left_edge}" x2="{left_edge + width}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="#ddd"/>')
            out.append(f'<text x="{left_edge - 6}" y="{y(level) + 4:.1f}" text-anchor="end" fill="#555">{level:.3g}</text>')
        points = " ".join(f"{x(sample['at']):.1f},{y(v):.1f}" for sample, v in zip(samples, values))
        out.append(f'<polyline points="{points}" fill="none" stroke="#1a5fb4" stroke-width="1.2"/>')
    for minute in range(0, int(total) + 1, 60):
        out.append(f'<text x="{x(minute):.1f}" y="{len(rows) * (height + top) + 18}" text-anchor="middle" fill="#555">{minute // 60} min</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    args = parser.parse_args()
    print(machine(), flush=True)
    with Folder() as folder:
        most, load, samples, before, after, trouble = soak(folder, args.seconds)
    later = samples[len(samples) // 2:]
    of = lambda key: [sample[key] for sample in later]
    growth = slope(later, "memory_kib") * 300 / 1024
    exchanges = {upstream["name"]: upstream["exchanges"] for upstream in load["state"]["upstreams"]}
    print(f"""
| | |
|---|---|
| peak | {most:.0f} requests a second |
| load | {load['per_second']:.0f} a second, {load['per_second'] / most:.0%} of it, {load['cores']:.2f} cores; median {load['p50_us'] / 1000:.1f} ms |
| memory, second half | {min(of('memory_kib')) / 1024:.1f} to {max(of('memory_kib')) / 1024:.1f} MiB, slope {growth:+.2f} MiB in five minutes |
| descriptors | {before[1]['descriptors']} before, up to {max(s['descriptors'] for s in samples)}, {after[1]['descriptors']} after |
| threads | {before[1]['threads']} before, up to {max(s['threads'] for s in samples)}, {after[1]['threads']} after |
| connections of clients | {before[1]['connections']} before, up to {max(s['connections'] for s in samples)}, {after[1]['connections']} after |
| waiting | up to {max(s['waiting'] for s in samples)}, {after[1]['waiting']} after |
| not given back | {left(before, after) or 'nothing'} |
""")
    print("exchanges:", json.dumps(exchanges))
    print("trouble:", json.dumps(dict(sorted(trouble.counts.items()))))
    print(machine())
    wrong = []
    if left(before, after):
        wrong.append(f"not given back: {left(before, after)}")
    if args.seconds >= 600:
        (ROOT / "docs/images").mkdir(exist_ok=True)
        (ROOT / "docs/images/soak.svg").write_text(picture(samples, trouble.marks))
        print("written: docs/images/soak.svg")
        if growth >= SLOPE_MAX_MIB:
            wrong.append(f"the memory grows by {growth:.2f} MiB in five minutes")
    for what in wrong:
        print(f"WRONG {what}")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
