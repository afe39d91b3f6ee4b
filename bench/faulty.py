#!/usr/bin/env python3
"""An API that fails in every way, as a process of its own, so that it can be stopped and killed: for faults.py and soak.py.

    bench/faulty.py PORT [MODE]

Lines on standard input change what it does from then on; `log` prints all that arrived, as JSON. Instants are those of
CLOCK_MONOTONIC, which all processes of a machine share.
"""
import json
import random
import socket
import struct
import sys
import threading
import time
from email.utils import formatdate

GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
PROMISED = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of it"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Reset(Exception):
    """The connection is broken off with RST."""


class Close(Exception):
    """The connection is closed."""


def answer(status, *fields):
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{field}\r\n" for field in fields)
    return (head + "Content-Length: 2\r\n\r\n{}").encode()


def sends(*what):
    """A mode that sends these bytes, and ends with an exception if that is last."""
    def mode(peer, _number):
        for piece in what:
            if isinstance(piece, bytes):
                peer.sendall(piece)
            else:
                raise piece
    return mode


def silent(peer, _number):
    """Reads and says nothing, until the other side goes."""
    while peer.recv(65536):
        pass
    raise Close


def after(piece):
    """Sends this, and then nothing any more."""
    def mode(peer, number):
        peer.sendall(piece)
        silent(peer, number)
    return mode


def endless(piece, begin=b"HTTP/1.1 200 OK\r\n", pause=0.0):
    """Sends the same for ever."""
    def mode(peer, _number):
        peer.sendall(begin)
        while True:
            peer.sendall(piece)
            time.sleep(pause)
    return mode


def in_bytes(text, pause):
    """Sends a whole answer, slowly."""
    def mode(peer, _number):
        for byte in text:
            peer.sendall(bytes([byte]))
            time.sleep(pause)
    return mode


def limited(value):
    def mode(peer, _number):
        peer.sendall(answer(429, f"Retry-After: {value() if callable(value) else value}"))
    return mode


def two_of_three(peer, number):
    peer.sendall(answer(500) if number % 3 else GOOD)


def big(peer, _number):
    """An answer of 64 KiB in chunks, for those who leave in the middle of it."""
    peer.sendall(CHUNKED)
    for _ in range(16):
        peer.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        time.sleep(0.01)
    peer.sendall(b"0\r\n\r\n")


MODES = {
    "good": sends(GOOD),
    "silent": silent,
    "reset-at-once": sends(Reset()),
    "reset-in-head": sends(b"HTTP/1.1 200 OK\r\nContent-Le", Reset()),
    "close-in-head": sends(b"HTTP/1.1 200 OK\r\nContent-Le", Close()),
    "reset-in-body": sends(PROMISED, Reset()),
    "close-in-body": sends(PROMISED, Close()),
    "garbage": sends(b"\x16\x03\x01\x02\x00SSH-2.0-OpenSSH\r\n\r\n", Close()),
    "endless-head": endless(b"X-More: " + b"x" * 100 + b"\r\n"),
    "endless-line": endless(b"x" * 4096, b"HTTP/1.1 200 OK\r\nX-Long: "),
    "endless-interims": endless(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", b"", 0.001),
    "slow-head": in_bytes(GOOD, 0.2),
    "slow-body": lambda peer, number: (peer.sendall(GOOD[:-2]), in_bytes(b"{}", 0.5)(peer, number)),
    "stalled-body": after(PROMISED),
    "two-lengths": sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", Close()),
    "bad-chunk": sends(CHUNKED + b"2\r\n{}\r\nno-size\r\n", Close()),
    "more-than-promised": sends(GOOD + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse"),
    "429-seconds": limited(2),
    "429-date": limited(lambda: formatdate(time.time() + 3, usegmt=True)),
    "429-absurd": limited(1999999999),
    "429-unusable": limited("soon"),
    "500": sends(answer(500)),
    "503": sends(answer(503)),
    "503-seconds": sends(answer(503, "Retry-After: 2")),
    "two-of-three": two_of_three,
    "big": big,
}


def mixed(peer, number):
    """One fault after the other, in an order of its own; every fourth answer is good."""
    short = ("reset-at-once", "reset-in-head", "close-in-head", "reset-in-body", "close-in-body", "garbage", "endless-head",
             "stalled-body", "two-lengths", "bad-chunk", "more-than-promised", "500", "503", "two-of-three", "big", "silent")
    MODES["good" if number % 4 == 0 else random.choice(short)](peer, number)


MODES["mixed"] = mixed


class Api:
    def __init__(self, mode):
        self.mode, self.log, self.lock = mode, [], threading.Lock()

    def serve(self, peer):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            held = b""
            while True:
                while b"\r\n\r\n" not in held:
                    piece = peer.recv(65536)
                    if not piece:
                        return
                    held += piece
                head, _, held = held.partition(b"\r\n\r\n")
                held = self.skip_body(peer, head, held)
                with self.lock:
                    method, target = head.split(b" ", 2)[:2]
                    mode, number = self.mode, len(self.log)
                    if mode != "mixed" and mode != "big":
                        self.log.append((time.monotonic(), method.decode(), target.decode(), mode))
                    else:
                        self.log.append(None)
                MODES[mode](peer, number)
        except Reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (Close, OSError):
            pass
        finally:
            peer.close()

    @staticmethod
    def skip_body(peer, head, held):
        length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        while len(held) < length:
            piece = peer.recv(65536)
            if not piece:
                raise Close
            held += piece
        return held[length:]

    def accept(self, listener):
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()


def main():
    threading.stack_size(256 * 1024)
    api, listener = Api(sys.argv[2] if len(sys.argv) > 2 else "good"), socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen(1024)
    threading.Thread(target=api.accept, args=(listener,), daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "log":
            with api.lock:
                print(json.dumps([entry for entry in api.log if entry]), flush=True)
        elif line.strip() in MODES:
            api.mode = line.strip()
        else:
            raise SystemExit(f"unknown: {line.strip()}; there are {', '.join(MODES)}")


if __name__ == "__main__":
    main()
