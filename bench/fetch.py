#!/usr/bin/env python3
"""What does it cost to get a million records page by page, beside a loop in Python with `requests`?

    bench/fetch.py [--records N] [--page-size M] [--rounds R]

Each round gets the whole collection once by each program, in turn, into JSON Lines. The pages are those of `sopan fake-api`, written to
files once and served by nginx, so that what is measured is not how fast an API makes them. Records a second count from the start of the program to its end. Memory is the most that was resident (VmHWM), and for sopan also what was
resident at each quarter of the run. `requests` must be there (`apt-get install python3-requests`).
"""
import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from harness import SOPAN, Folder, Program, free_port, nginx

LOOP = """
import json, sys
import requests
url, out = sys.argv[1:]
with requests.Session() as session, open(out, "w") as lines:
    while url:
        answer = session.get(url, timeout=60)
        answer.raise_for_status()
        page = answer.json()
        for record in page["data"]:
            lines.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\\n")
        url = page["next"]
"""

SCHEMA = {
    "type": "object",
    "required": ["id", "code", "customer", "items", "total_idr", "status", "created_at"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "code": {"type": "string", "pattern": "^TK-[0-9]+$"},
        "customer": {"type": "string"},
        "items": {"type": "integer"},
        "total_idr": {"type": "integer"},
        "status": {"enum": ["diproses", "dikirim", "selesai", "dibatalkan"]},
        "created_at": {"type": "string"},
    },
}


def resident_kib(pid, name):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return 0


def run(argv):
    """Seconds, processor seconds, KiB at most, and KiB over time, of a program that must succeed."""
    began, over_time = time.monotonic(), []
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        over_time.append(resident_kib(process.pid, "VmRSS:"))
        time.sleep(0.02)
    took = time.monotonic() - began
    if status:
        raise SystemExit(f"{argv[0]} failed: {process.stderr.read().decode()}")
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, over_time


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def quarters(over_time):
    count = len(over_time)
    return [over_time[min(count - 1, count * part // 4)] / 1024 for part in (1, 2, 3, 4)] if over_time else []


def write_pages(folder, records, page_size, api):
    """All pages of the collection as files, each with the URL of the next at `api`."""
    fake_port, pages = free_port(), folder / "pages"
    pages.mkdir()
    fake = [SOPAN, "fake-api", "--listen", f"127.0.0.1:{fake_port}", "--orders-total", str(records)]
    with Program(fake, fake_port):
        for number in range(1, -(-records // page_size) + 1):
            url = f"http://127.0.0.1:{fake_port}/api/v1/orders?page={number}&size={page_size}"
            page = urllib.request.urlopen(url).read().decode()
            head, _, next_page = page.rpartition(', "next": ')
            next_page = "null" if next_page.startswith("null") else f'"{api}/{number + 1}.json"'
            (pages / f"{number}.json").write_text(f'{head}, "next": {next_page}}}')
    return f"{api}/1.json"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--page-size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with Folder() as folder:
        port = free_port()
        schema = folder / "schema.json"
        schema.write_text(json.dumps(SCHEMA))
        url = write_pages(folder, args.records, args.page_size, f"http://127.0.0.1:{port}/pages")
        upstream = nginx(folder, f"""default_type application/json; sendfile on; open_file_cache max=20000;
server {{ listen 127.0.0.1:{port}; root {folder}; }}""", workers=1)
        fetch = [SOPAN, "fetch", url, "--records", "/data", "--next", "/next", "--rate", "unlimited", "--quiet"]
        programs = {
            "python": lambda out: [sys.executable, "-c", LOOP, url, out],
            "sopan": lambda out: [*fetch, "--out", out],
            "sopan, schema": lambda out: [*fetch, "--schema", str(schema), "--out", out],
            "sopan, parquet": lambda out: [*fetch, "--out", out.replace(".jsonl", ".parquet")],
        }
        seen = {name: [] for name in programs}
        with Program(upstream, port):
            for number in range(args.rounds):
                digests = set()
                # The order turns, so that none is always first.
                names = list(programs)
                names = names[number % len(names):] + names[:number % len(names)]
                for name in names:
                    out = folder / f"{number}-{names.index(name)}.jsonl"
                    seen[name].append(run(programs[name](str(out))))
                    if out.exists():
                        digests.add(digest(out))
                    for file in folder.glob(f"{number}-*"):
                        file.unlink()
                if len(digests) != 1:
                    raise SystemExit("the programs wrote different records")
        print(f"{args.records} records in pages of {args.page_size}, {args.rounds} rounds\n")
        print("| | records a second | ratio to Python | processor time | memory at most |\n|---|---|---|---|---|")
        for name, runs in seen.items():
            rate = statistics.median(args.records / took for took, *_ in runs)
            ratios = [python[0] / own[0] for python, own in zip(seen["python"], runs)]
            cpu = statistics.median(cpu for _, cpu, *_ in runs)
            memory = max(memory for _, _, memory, _ in runs) / 1024
            ratio = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
            print(f"| {name} | {rate:,.0f} | {ratio} | {cpu:.2f} s | {memory:.0f} MiB |")
        for name in ("sopan", "sopan, parquet"):
            told = ", ".join(f"{mib:.1f}" for mib in quarters(seen[name][-1][3]))
            print(f"\n{name}: resident at each quarter of the last run: {told} MiB")


if __name__ == "__main__":
    main()
