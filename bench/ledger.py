#!/usr/bin/env python3
"""How long the script that deals out shared turns keeps a Redis: docs/instances.md.

A redis-server of its own is asked as instances ask it, one ask after the other, and says itself how long each took. Needs
redis-server and nothing else.

    bench/ledger.py [--asks N]
"""

import argparse
import pathlib
import socket
import subprocess
import tempfile
import time

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "crates/sopan-engine/src/store/redis"
PARTS = 2**20
BATCH = 100


class Redis:
    def __init__(self, directory):
        path = f"{directory}/redis.sock"
        command = ["redis-server", "--port", "0", "--save", "", "--unixsocket", path, "--dir", directory]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self.replies = self.socket.makefile("rb")

    def send(self, *commands):
        out = b""
        for command in commands:
            parts = [str(part).encode() for part in command]
            out += b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.socket.sendall(out)

    def reply(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return self.replies.read(int(rest) + 2)[:-2].decode()
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest.decode()

    def call(self, *command):
        self.send(command)
        return self.reply()

    def end(self):
        self.process.kill()
        self.process.wait()


def rate(per_second, burst):
    return ["r", int(PARTS * 1_000_000 / per_second / 0.999) + 1, PARTS, burst]


def measure(redis, sha, name, terms, want, instances, asks):
    numbers = [0] * instances
    granted = 0
    redis.call("CONFIG", "RESETSTAT")
    keys = [f"{{{name}}}:{kind}" for kind in ("ledger", "records", "hungry", "known")]
    for first in range(0, asks, BATCH):
        commands = []
        for ask in range(first, first + BATCH):
            at = ask * 7919 % instances
            numbers[at] += 1
            args = [0, f"i{at}", numbers[at], numbers[at] - 1, want, 1, instances, instances, 50_000, -1, 0, 0]
            commands.append(["EVALSHA", sha, len(keys), *keys, *args, *terms, 0])
        redis.send(*commands)
        for _ in commands:
            answer = redis.reply()
            granted += len(answer) - 9 - 2 * answer[8]
    print(f"| {name} | {granted / asks:.1f} | {time_of_scripts(redis):.0f} µs |")


def measure_beats(redis, instances, beats):
    sha = redis.call("SCRIPT", "LOAD", (SCRIPTS / "members.lua").read_text())
    redis.call("CONFIG", "RESETSTAT")
    for first in range(0, beats, BATCH):
        args = [600_000, 10_000_000, instances, 60_000]
        ids = [f"i{beat % instances}" for beat in range(first, first + BATCH)]
        redis.send(*(["EVALSHA", sha, 1, "members", each, "beat", *args] for each in ids))
        for _ in ids:
            redis.reply()
    print(f"| a sign of life, {instances} instances | | {time_of_scripts(redis):.0f} µs |")


def time_of_scripts(redis):
    stats = redis.call("INFO", "commandstats")
    line = next(line for line in stats.splitlines() if line.startswith("cmdstat_evalsha:"))
    return float(line.split("usec_per_call=")[1].split(",")[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asks", type=int, default=20_000)
    asks = max(parser.parse_args().asks // BATCH, 1) * BATCH
    with tempfile.TemporaryDirectory() as directory:
        redis = Redis(directory)
        try:
            sha = redis.call("SCRIPT", "LOAD", "".join((SCRIPTS / name).read_text() for name in ("ledger.lua", "ask.lua")))
            print("| asked | turns in an answer | time of the server for one |\n|---|---|---|")
            fast = [1, *rate(100_000, 100_000)]
            measure(redis, sha, "a rate, in vain", [1, *rate(1, 1)], 1, 4, asks)
            measure(redis, sha, "a rate, in vain, 1000 instances", [1, *rate(1, 1)], 1, 1000, asks)
            measure(redis, sha, "a rate, 1 turn", fast, 1, 4, asks)
            measure(redis, sha, "a rate, 8 turns", fast, 8, 4, asks)
            measure(redis, sha, "a rate, 64 turns", [1, *rate(1_000_000, 1_000_000)], 64, 4, asks)
            measure(redis, sha, "a rate, 256 turns", [1, *rate(1_000_000, 1_000_000)], 256, 4, asks)
            measure(redis, sha, "a rate and a quota, 8 turns", [2, *fast[1:], "s", 10_000_000, 3_600_000_000], 8, 4, asks)
            measure_beats(redis, 4, asks)
            measure_beats(redis, 1000, asks)
        finally:
            redis.end()


if __name__ == "__main__":
    main()
