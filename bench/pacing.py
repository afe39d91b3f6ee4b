#!/usr/bin/env python3
"""How evenly requests leave, beside nginx's limit_req: an upstream in C stamps every arrival.

Equal clients, one connection each, ask again as soon as they are answered. With --loaded other connections keep the same
workers busy at half of what they can do, with requests that sopan and nginx answer by themselves.
"""
import argparse
import asyncio
import statistics
import subprocess
import time

from harness import Folder, Program, ROOT, free_port, machine, median, nginx_proxy, sopan, spread, wrk


async def client(number, port, until, asked):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    turn = 0
    while time.monotonic() < until:
        target = f"/k/{number}/{turn}"
        asked[target] = time.monotonic_ns()
        writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        await reader.readexactly(int(fields.get(b"content-length", b"0")))
        if fields.get(b"connection") == b"close":
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn += 1
    writer.close()


async def drive(port, clients, seconds):
    asked, until = {}, time.monotonic() + seconds
    await asyncio.gather(*(client(n, port, until, asked) for n in range(clients)))
    return asked


def needed_bucket(arrivals, rate):
    """The smallest token bucket at this rate that would have let all of them through."""
    need = level = 0.0
    last = arrivals[0]
    for at in arrivals:
        level = max(0.0, level - (at - last) * rate) + 1
        need, last = max(need, level), at
    return need


def judge(stamps, asked, rate, settle, seconds):
    arrivals = sorted((at, target) for at, target in stamps if target in asked)
    begin = min(asked.values())
    times = [(at - begin) / 1e9 for at, _ in arrivals]
    steady = [t for t in times if settle <= t <= seconds]
    gaps = [(b - a) * 1e3 for a, b in zip(steady, steady[1:])]
    order = [asked[target] for _, target in arrivals]
    # Overtaken: somebody who asked at least 1 ms later arrived before.
    overtaken, latest = 0, 0
    for at in order:
        overtaken += latest - at > 1_000_000
        latest = max(latest, at)
    turns = {}
    for _, target in arrivals:
        turns[target.split("/")[2]] = turns.get(target.split("/")[2], 0) + 1
    counts = list(turns.values())
    return {
        "share": len(steady) / (seconds - settle) / rate,
        "gap_sigma_ms": statistics.pstdev(gaps),
        "bucket": needed_bucket(steady, rate),
        "overtaken": overtaken / len(order),
        "jain": sum(counts) ** 2 / len(counts) / sum(c * c for c in counts),
    }


# A request that is answered on the spot: sopan passes no CONNECT on, and nginx has a place for it.
REFUSED = {"sopan": 'wrk.method = "CONNECT"\nwrk.path = "u:80"\n', "nginx": 'wrk.path = "/refused"\n'}


def load(folder, name, port):
    """Starts wrk at half of the rate at which the workers answer such requests."""
    script = folder / f"{name}.lua"
    script.write_text(REFUSED[name])
    peak = wrk(port, "/", 64, 2, script)["per_second"]
    script.write_text(REFUSED[name] + "function delay() return 2 end\n")
    connections = max(2, int(peak / 2 * 0.002))
    return Program(["wrk", "-t1", f"-c{connections}", "-d600s", "-s", str(script), f"http://127.0.0.1:{port}/"])


def once(folder, name, rate, clients, seconds, loaded):
    stamp, up, port = folder / "stamp", free_port(), free_port()
    out = folder / f"{port}.stamps"
    upstream = Program([str(stamp), str(up), str(out)], up)
    limit = (rate, clients * 3)
    argv = nginx_proxy(folder, port, up, limit) if name == "nginx" else sopan(port, up, "--rate", f"{rate}/s")
    with Program(argv, port) as program:
        other = load(folder, name, port) if loaded else None
        time.sleep(1.5)
        busy = program.cpu()
        asked = asyncio.run(drive(port, clients, seconds))
        busy = program.cpu() - busy
        if other:
            other.end()
    upstream.end()
    stamps = [(int(at), target) for at, target in (line.split() for line in out.read_text().splitlines())]
    result = judge(stamps, asked, rate, 2.0, seconds)
    result["cpu_us"] = busy * 1e6 / len(asked)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--loaded", action="store_true")
    args = parser.parse_args()
    print(machine())
    with Folder() as folder:
        subprocess.run(["cc", "-O2", "-o", str(folder / "stamp"), str(ROOT / "bench/stamp.c")], check=True)
        for rate, clients in ((100, 20), (1000, 50)):
            rows = {"nginx": [], "sopan": []}
            for _ in range(args.rounds):
                for name, results in rows.items():
                    results.append(once(folder, name, rate, clients, args.seconds, args.loaded))
            ratios = [s["gap_sigma_ms"] / n["gap_sigma_ms"] for s, n in zip(rows["sopan"], rows["nginx"])]
            print(f"\n{rate}/s, {clients} clients{', loaded' if args.loaded else ''}: "
                  f"gap sigma {median(ratios):.2f} of nginx's ({spread(ratios)})")
            for name, results in rows.items():
                print(f"  {name:6}", {key: round(median([r[key] for r in results]), 4) for key in results[0]}, flush=True)
    print(machine())


if __name__ == "__main__":
    main()
