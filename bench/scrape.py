#!/usr/bin/env python3
"""What a scraper costs: how long a scrape of /metrics takes at half load, and processor time with and without a scraper.

Half load is wrk with pauses, at about half of what the same proxy answers at most. Processor time per request is compared between
a proxy with an admin port that is scraped each second and one without an admin port, which keeps no recent exchanges and looks at
no timers either; both run in turn, forwards and backwards, and the figure is the median over rounds of the ratio within one round.
"""
import argparse
import socket
import threading
import time

from harness import SOPAN, Folder, Program, free_port, machine, median, nginx_upstream, spread, wrk
from passthrough import one


def scrape(port):
    """Seconds that it took, and the bytes that came."""
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        s.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        text = b"".join(iter(lambda: s.recv(65536), b""))
    took = time.perf_counter() - begun
    assert text.startswith(b"HTTP/1.1 200 ") and text.endswith(b"# EOF\n"), text[:200]
    return took, len(text)


class Scraper:
    """Scrapes each second until it is left."""

    def __init__(self, port):
        self.port, self.stop = port, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.wait(1):
            scrape(self.port)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def settings(folder, upstream, count):
    """So many upstreams; requests go to the first, which has no limits."""
    path = folder / f"{count}.yaml"
    others = "".join(f"  other-{number}: {{ url: 'http://127.0.0.1:{upstream}', route: /other-{number}, "
                     f"limits: [10/s burst 20, 5000 per 1h] }}\n" for number in range(1, count))
    path.write_text(f"upstreams:\n  first: {{ url: 'http://127.0.0.1:{upstream}', limits: unlimited }}\n{others}")
    return path


def proxy(path, port, admin):
    return Program([SOPAN, "serve", "--config", str(path), "--listen", f"127.0.0.1:{port}",
                    "--admin", f"127.0.0.1:{admin}" if admin else "off"], port)


def at_half_load(folder, upstream, count, scrapes):
    port, admin, script = free_port(), free_port(), folder / "half.lua"
    with proxy(settings(folder, upstream, count), port, admin):
        peak = wrk(port, "/1k", 64, 2)["per_second"]
        script.write_text("function delay() return 2 end\n")
        connections = max(2, int(peak / 2 * 0.002))
        # An answer takes its time as well.
        connections = int(connections * peak / 2 / wrk(port, "/1k", connections, 1, script)["per_second"]) + 1
        load = Program(["wrk", "-t1", f"-c{connections}", "-d600s", "-s", str(script), f"http://127.0.0.1:{port}/1k"])
        try:
            time.sleep(1)
            asked, begun = requests(admin), time.monotonic()
            took = []
            for _ in range(scrapes):
                took.append(scrape(admin))
                time.sleep(0.05)
            rate = (requests(admin) - asked) / (time.monotonic() - begun)
        finally:
            load.end()
    seconds = sorted(seconds * 1e3 for seconds, _ in took)
    print(f"{count:3} upstreams, {took[-1][1] / 1024:.0f} KiB, at {rate / peak:.2f} of {peak:.0f}/s: a scrape takes "
          f"p50 {median(seconds):.2f} ms, p95 {seconds[len(seconds) * 95 // 100]:.2f} ms, at most {seconds[-1]:.2f} ms ({scrapes} of them)", flush=True)


def requests(admin):
    with socket.create_connection(("127.0.0.1", admin), 5) as s:
        s.sendall(f"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:{admin}\r\n\r\n".encode())
        text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    line = next(line for line in text.splitlines() if line.startswith('sopan_exchanges_total{upstream="first",status="2xx"} '))
    return float(line.rpartition(" ")[2])


def with_and_without(folder, upstream, connections, rounds, seconds):
    watched, alone, admin = free_port(), free_port(), free_port()
    path = settings(folder, upstream, 1)
    results = {"scraped": [], "alone": []}
    with proxy(path, watched, admin) as a, proxy(path, alone, None) as b:
        rows = {"scraped": a, "alone": b}
        for program in rows.values():
            wrk(program.port, "/1k", connections, 1)
        for number in range(rounds):
            order = list(rows.items())
            for name, program in order if number % 2 == 0 else order[::-1]:
                if name == "alone":
                    results[name].append(one(program, upstream, "/1k", connections, seconds))
                else:
                    with Scraper(admin):
                        results[name].append(one(program, upstream, "/1k", connections, seconds))
    ratios = sorted(s["cpu_us"] / n["cpu_us"] for s, n in zip(results["scraped"], results["alone"]))
    quarter = len(ratios) // 4
    of = lambda name: median([r["cpu_us"] for r in results[name]])
    print(f"{connections:4} connections: {of('scraped'):.2f} us a request when scraped each second, {of('alone'):.2f} us without; ratio "
          f"{median(ratios):.3f} ({spread(ratios)}; half of them {ratios[quarter]:.3f}..{ratios[-1 - quarter]:.3f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--scrapes", type=int, default=100)
    args = parser.parse_args()
    print(machine())
    with Folder() as folder:
        up = free_port()
        with Program(nginx_upstream(folder, up), up):
            for count in (1, 20):
                at_half_load(folder, up, count, args.scrapes)
            with_and_without(folder, up, 64, args.rounds, args.seconds)
    print(machine())


if __name__ == "__main__":
    main()
