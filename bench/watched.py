#!/usr/bin/env python3
"""What it costs the proxy that somebody watches: processor time per request with a reader of /events and without, 1 KiB.

One program, rounds in turn with the reader and without, forwards and backwards; the figure is the median of the ratio within one
round, beside the quartiles of those ratios. That events came is counted too, since a reader that gets none costs nothing.
"""
import argparse
import socket
import statistics
import threading

from harness import Folder, Program, free_port, machine, median, nginx_upstream, sopan, spread
from passthrough import one


class Reader:
    """Reads all events while it is entered, as a page does."""

    def __init__(self, admin):
        self.admin, self.states = admin, 0

    def __enter__(self):
        self.socket = socket.create_connection(("127.0.0.1", self.admin))
        self.socket.sendall(f"GET /events HTTP/1.0\r\nHost: 127.0.0.1:{self.admin}\r\n\r\n".encode())
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while piece := self.socket.recv(1 << 20):
            self.states += piece.count(b"event: state")

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


def compare(program, admin, upstream, connections, rounds, seconds):
    one(program, upstream, "/1k", connections, seconds)
    alone, watched, states = [], [], 0
    for number in range(rounds):
        for is_watched in (False, True) if number % 2 == 0 else (True, False):
            if is_watched:
                reader = Reader(admin)
                with reader:
                    watched.append(one(program, upstream, "/1k", connections, seconds))
                states += reader.states
            else:
                alone.append(one(program, upstream, "/1k", connections, seconds))
    ratios = [w["cpu_us"] / a["cpu_us"] for w, a in zip(watched, alone)]
    low, _, high = statistics.quantiles(ratios, n=4) if rounds > 1 else (ratios * 3)
    of = lambda results: median([r["cpu_us"] for r in results])
    print(f"{connections:4} connections: watched {of(watched):.2f} us, alone {of(alone):.2f} us, {median([r['per_second'] for r in watched]):.0f}/s; "
          f"ratio {median(ratios):.3f} (quartiles {low:.3f} and {high:.3f}, {spread(ratios)}); {states / rounds / seconds:.1f} states a second; "
          f"bad {sum(r['bad'] for r in watched)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=3)
    args = parser.parse_args()
    print(machine())
    with Folder() as folder:
        up, port, admin = free_port(), free_port(), free_port()
        with Program(nginx_upstream(folder, up), up), Program(sopan(port, up, "--rate", "unlimited", admin=admin), port) as ours:
            compare(ours, admin, up, 64, args.rounds, args.seconds)
    print(machine())


if __name__ == "__main__":
    main()
