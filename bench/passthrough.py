#!/usr/bin/env python3
"""What passing on costs beside nginx: processor time per request, one client's added latency, start-up, idle memory.

Rows run in turn, forwards and backwards; every figure is the median over rounds of the ratio within one round.
"""
import argparse
import os
import socket
import time

from harness import Folder, Program, free_port, machine, median, nginx_proxy, nginx_upstream, sopan, spread, wrk


def served(port):
    """Requests that the upstream has answered."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(f"GET /count HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    return int(text.partition("\r\n\r\n")[2].splitlines()[2].split()[2])


def one(program, upstream, path, connections, seconds):
    before, busy = served(upstream), program.cpu()
    result = wrk(program.port, path, connections, seconds)
    time.sleep(0.3)
    # Requests that were still under way at the end were worked for too.
    requests = max(result["requests"], served(upstream) - before - 1)
    result["cpu_us"] = (program.cpu() - busy) * 1e6 / requests
    return result


def compare(rows, upstream, path, connections, rounds, seconds):
    results = {name: [] for name in rows}
    for program in rows.values():
        wrk(program.port, path, min(connections, 64), 1)
    for number in range(rounds):
        order = list(rows.items())
        for name, program in order if number % 2 == 0 else order[::-1]:
            results[name].append(one(program, upstream, path, connections, seconds))
    ratios = [s["cpu_us"] / n["cpu_us"] for s, n in zip(results["sopan"], results["nginx"])]
    of = lambda name, key: median([r[key] for r in results[name]])
    print(f"{path:6} {connections:4} connections: sopan {of('sopan', 'cpu_us'):.1f} us, nginx {of('nginx', 'cpu_us'):.1f} us, "
          f"ratio {median(ratios):.3f} ({spread(ratios)}); p99 {of('sopan', 'p99_us'):.0f} and {of('nginx', 'p99_us'):.0f} us; "
          f"bad {sum(r['bad'] for r in results['sopan'])}", flush=True)


def latency(folder, rounds, seconds):
    """One client, everything on one core: without that, which core wakes decides the figure."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    try:
        up, a, b = free_port(), free_port(), free_port()
        with Program(nginx_upstream(folder, up), up), Program(nginx_proxy(folder, a, up), a) as nginx, \
                Program(sopan(b, up, "--rate", "unlimited"), b) as ours:
            added = {"nginx": [], "sopan": []}
            for _ in range(rounds):
                direct = wrk(up, "/1k", 1, seconds)["p50_us"]
                for name, program in (("nginx", nginx), ("sopan", ours)):
                    added[name].append(wrk(program.port, "/1k", 1, seconds)["p50_us"] - direct)
            ratios = [s / n for s, n in zip(added["sopan"], added["nginx"]) if n > 0]
            print(f"one client, pinned: added p50 sopan {median(added['sopan']):.1f} us, nginx {median(added['nginx']):.1f} us, "
                  f"ratio {median(ratios):.3f} ({spread(ratios)})", flush=True)
    finally:
        os.sched_setaffinity(0, all_cores)


def start_up(upstream, times):
    took = []
    for _ in range(times):
        port = free_port()
        begun = time.perf_counter()
        program = Program(sopan(port, upstream, "--rate", "unlimited"))
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 0.5) as s:
                    s.sendall(f"GET /1k HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                    if s.recv(1):
                        break
            except OSError:
                time.sleep(0.0005)
        took.append((time.perf_counter() - begun) * 1e3)
        program.end()
    print(f"start to first answer: median {median(took):.1f} ms of {times} ({spread(took)})", flush=True)


def idle(folder, upstream, count):
    for name, argv in (("nginx", nginx_proxy), ("sopan", None)):
        port = free_port()
        argv = argv(folder, port, upstream) if argv else sopan(port, upstream, "--rate", "unlimited")
        with Program(argv, port) as program:
            time.sleep(1)
            before, held = program.memory_kib(), []
            for _ in range(count):
                s = socket.create_connection(("127.0.0.1", port))
                s.sendall(f"GET /1k HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                while b'"}' not in s.recv(4096):
                    pass
                held.append(s)
            time.sleep(1)
            print(f"{count} idle connections, {name}: {(program.memory_kib() - before) / count:.2f} KiB each, "
                  f"{before / 1024:.1f} MiB at the start", flush=True)
            for s in held:
                s.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--idle", type=int, default=5000)
    args = parser.parse_args()
    print(machine())
    with Folder() as folder:
        up, a, b = free_port(), free_port(), free_port()
        with Program(nginx_upstream(folder, up), up):
            with Program(nginx_proxy(folder, a, up), a) as nginx, Program(sopan(b, up, "--rate", "unlimited"), b) as ours:
                rows = {"nginx": nginx, "sopan": ours}
                for path, connections in (("/1k", 64), ("/1k", 512), ("/100k", 64)):
                    compare(rows, up, path, connections, args.rounds, args.seconds)
            start_up(up, 20)
            idle(folder, up, args.idle)
        latency(folder, args.rounds, args.seconds)
    print(machine())


if __name__ == "__main__":
    main()
