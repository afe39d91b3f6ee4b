#!/usr/bin/env python3
"""What an answer from the cache costs beside nginx and HAProxy: processor time per request, 1 KiB.

Rows run in turn, forwards and backwards; every figure is the median over rounds of the ratio within one round, to the better
of the two peers in that round. What is stored is asked for once before, and the upstream is asked how often it was asked.
"""
import argparse
import time

from harness import Folder, Program, free_port, haproxy_cache, machine, median, nginx_cache, nginx_upstream, sopan, spread, wrk
from passthrough import served


def one(program, connections, seconds):
    busy = program.cpu()
    result = wrk(program.port, "/stored", connections, seconds)
    time.sleep(0.3)
    result["cpu_us"] = (program.cpu() - busy) * 1e6 / result["requests"]
    return result


def compare(rows, upstream, connections, rounds, seconds):
    results = {name: [] for name in rows}
    for program in rows.values():
        wrk(program.port, "/stored", min(connections, 64), 1)
    asked = served(upstream)
    for number in range(rounds):
        order = list(rows.items())
        for name, program in order if number % 2 == 0 else order[::-1]:
            results[name].append(one(program, connections, seconds))
    asked = served(upstream) - asked - 1
    better = [min(n["cpu_us"], h["cpu_us"]) for n, h in zip(results["nginx"], results["haproxy"])]
    ratios = [s["cpu_us"] / b for s, b in zip(results["sopan"], better)]
    of = lambda name, key: median([r[key] for r in results[name]])
    each = ", ".join(f"{name} {of(name, 'cpu_us'):.2f} us ({of(name, 'per_second'):.0f}/s, p99 {of(name, 'p99_us'):.0f} us)" for name in rows)
    print(f"{connections:4} connections: {each}; ratio to the better {median(ratios):.3f} ({spread(ratios)}); "
          f"bad {sum(r['bad'] for r in results['sopan'])}; the upstream was asked {asked} times", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    print(machine())
    with Folder() as folder:
        up, a, b, c = (free_port() for _ in range(4))
        with Program(nginx_upstream(folder, up), up), Program(nginx_cache(folder, a, up), a) as nginx, \
                Program(haproxy_cache(folder, b, up), b) as haproxy, Program(sopan(c, up, "--rate", "unlimited"), c) as ours:
            rows = {"nginx": nginx, "haproxy": haproxy, "sopan": ours}
            for connections in (64, 512):
                compare(rows, up, connections, args.rounds, args.seconds)
    print(machine())


if __name__ == "__main__":
    main()
