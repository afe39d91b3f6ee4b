#!/usr/bin/env python3
"""Whether a limit is kept and used whole: 200 clients at once against a fake API that enforces the same limit exactly.

The fake's own log is the judge: no 429 on the wire, at least 99 % of the limit used, first come first served within a
client, equal shares between the clients 127.0.0.1 to 127.0.0.20.
"""
import argparse
import asyncio
import json
import socket
import time
import urllib.request

from harness import SOPAN, Program, free_port, machine, sopan

ADDRESSES = [f"127.0.0.{n}" for n in range(1, 21)]


async def client(number, port, until, served):
    source = ADDRESSES[number % len(ADDRESSES)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    turn = 0
    while time.monotonic() < until:
        asked = time.monotonic_ns()
        target = f"/api/v1/health?c={number}&n={turn}"
        writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
        served.append((source, asked, target, int(head.split()[1])))
        turn += 1
    writer.close()


async def drive(port, seconds, count):
    served, until = [], time.monotonic() + seconds
    await asyncio.gather(*(client(n, port, until, served) for n in range(count)))
    return served


def once(ours, theirs, allowed, seconds):
    up, port = free_port(), free_port()
    fake = Program([SOPAN, "fake-api", "--listen", f"127.0.0.1:{up}", *theirs], up)
    with fake, Program(sopan(port, up, "--wait-max", "60s", *ours), port):
        time.sleep(1.2)
        begun = time.time()
        served = asyncio.run(drive(port, seconds, 200))
        log = json.load(urllib.request.urlopen(f"http://127.0.0.1:{up}/_fake/log"))
    arrivals = {entry["path"]: entry["at_us"] / 1e6 - begun for entry in log}
    limited = sum(entry["status"] == 429 for entry in log)
    used = sum(0 <= at < seconds for at in arrivals.values())
    overtaken = 0
    shares = dict.fromkeys(ADDRESSES, 0)
    for source in ADDRESSES:
        own = sorted((asked, arrivals[target]) for s, asked, target, _ in served if s == source)
        overtaken += sum(b[1] < a[1] and b[0] - a[0] > 1_000_000 for a, b in zip(own, own[1:]))
        shares[source] = sum(at < seconds for _, at in own)
    counts = list(shares.values())
    jain = sum(counts) ** 2 / len(counts) / sum(c * c for c in counts)
    bad = sum(status != 200 for *_, status in served)
    print(f"{' '.join(ours):28} against {' '.join(theirs):40} 429s {limited}, other than 200 {bad}, "
          f"used {used / allowed(seconds):.4f}, overtaken {overtaken}, shares {min(counts)}..{max(counts)}, Jain {jain:.5f}",
          flush=True)
    return limited == 0 and bad == 0 and used / allowed(seconds) >= 0.99


def hold(seconds):
    """200 wait under a hold: what that costs of a core."""
    up, port = free_port(), free_port()
    fake = Program([SOPAN, "fake-api", "--listen", f"127.0.0.1:{up}"], up)
    with fake, Program(sopan(port, up, "--rate", "1/d", "--wait-max", "unlimited", "--total-timeout", "unlimited"), port) as program:
        held = []
        for number in range(200):
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall(f"GET /api/v1/health?n={number} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            held.append(s)
        time.sleep(1)
        busy = program.cpu()
        time.sleep(seconds)
        print(f"200 waiting for {seconds} s: {(program.cpu() - busy) / seconds * 100:.2f} % of a core", flush=True)
        for s in held:
            s.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()
    print(machine())
    rate = lambda seconds: 50 * seconds
    modes = [
        (["--rate", "50/s", "--burst", "10"], ["--limit", "50/s burst 10"], rate),
        (["--rate", "50 per 1s"], ["--limit", "50 per 1s", "--window", "fixed"], rate),
        (["--rate", "50 per 1s"], ["--limit", "50 per 1s", "--window", "sliding"], rate),
    ]
    kept = all([once(*mode, args.seconds) for mode in modes for _ in range(args.runs)])
    hold(10)
    print(machine(), "; all kept" if kept else "; NOT all kept")


if __name__ == "__main__":
    main()
