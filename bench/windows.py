#!/usr/bin/env python3
"""What comes of one limit written in several ways, before APIs that count "10 per second" in several ways.

40 clients ask as fast as they can for 5 s, hang up, and come again after 4 s of quiet, in which every bucket fills; so bursts
are seen too. The fake API's own log is the judge. docs/limits.md shows what came of it.
"""
import asyncio
import json
import os
import time
import urllib.request

from harness import SOPAN, Program, free_port, machine, sopan

RATE, BUSY, QUIET, ROUNDS, CLIENTS = 10, 5, 4, 4, 40

APIS = {
    "fixed windows": ("10 per 1s", "fixed"),
    "sliding window": ("10 per 1s", "sliding"),
    "bucket of 10": ("10 per 1s", "bucket"),
    "even spacing": ("10/s", "bucket"),
}
WRITTEN = {
    "`10/s`": ["--rate", "10/s"],
    "`10/s` with `--rate-margin 10%`": ["--rate", "10/s", "--rate-margin", "10%"],
    "`10/s burst 10`": ["--rate", "10/s burst 10"],
    "`10/s burst 20`": ["--rate", "10/s burst 20"],
    "`10 per 1s`": ["--rate", "10 per 1s"],
}


async def client(port, seen):
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                writer.write(b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                seen.append(int(head.split()[1]))
        finally:
            writer.close()


async def rounds(port):
    seen = []
    for _ in range(ROUNDS):
        await asyncio.sleep(QUIET)
        clients = [asyncio.create_task(client(port, seen)) for _ in range(CLIENTS)]
        await asyncio.sleep(BUSY)
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    return seen


def once(written, api):
    up, port = free_port(), free_port()
    limit, window = APIS[api]
    fake = Program([SOPAN, "fake-api", "--listen", f"127.0.0.1:{up}", "--limit", limit, "--window", window], up)
    with fake, Program(sopan(port, up, *WRITTEN[written]), port):
        seen = asyncio.run(rounds(port))
        time.sleep(0.2)
        log = json.load(urllib.request.urlopen(f"http://127.0.0.1:{up}/_fake/log"))
    limited = sum(entry["status"] == 429 for entry in log)
    served = sum(entry["status"] == 200 for entry in log)
    return limited, served / (RATE * BUSY * ROUNDS), sum(status != 200 for status in seen)


def main():
    print(machine())
    print("| written for sopan |" + "".join(f" {api} |" for api in APIS))
    print("|---|" + "---|" * len(APIS))
    for written in WRITTEN:
        cells = []
        # Each pair has processes and ports of its own, and nearly nothing to do.
        for api in APIS:
            read, write = os.pipe()
            if os.fork() == 0:
                os.write(write, json.dumps(once(written, api)).encode())
                os._exit(0)
            os.close(write)
            cells.append(read)
        results = []
        for read in cells:
            with os.fdopen(read) as pipe:
                results.append(json.load(pipe))
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
        bad = sum(result[2] for result in results)
        bad = f" clients saw {bad} other than 200" if bad else ""
        print(f"| {written} |" + "".join(f" {limited}, {share:.0%} |" for limited, share, _ in results) + bad, flush=True)
    print(machine())


if __name__ == "__main__":
    main()
