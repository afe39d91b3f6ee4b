#!/usr/bin/env python3
"""What passing on to an HTTPS upstream costs beside nginx: processor time per request, and new connections with it.

nginx speaks HTTP/1.1 to upstreams; sopan is measured that way and over HTTP/2, which it chooses where it is offered.
"""
import argparse

from harness import Folder, Program, certificate, free_port, machine, nginx_proxy, nginx_upstream, sopan
from passthrough import compare


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1)
    args = parser.parse_args()
    print(machine())
    with Folder() as folder:
        up, tls, a, b, c = (free_port() for _ in range(5))
        with Program(nginx_upstream(folder, up, tls), up):
            flags = ["--rate", "unlimited", "--ca-file", str(certificate(folder)[0])]
            with Program(nginx_proxy(folder, a, tls, scheme="https"), a) as nginx, \
                    Program(sopan(b, tls, *flags, "--http2", "off", scheme="https"), b) as h1, \
                    Program(sopan(c, tls, *flags, scheme="https"), c) as h2:
                for name, ours in (("HTTP/1.1", h1), ("HTTP/2", h2)):
                    print(f"sopan over {name}, nginx over HTTP/1.1:")
                    for path, connections in (("/1k", 64), ("/100k", 64)):
                        compare({"nginx": nginx, "sopan": ours}, up, path, connections, args.rounds, args.seconds)
    print(machine())


if __name__ == "__main__":
    main()
