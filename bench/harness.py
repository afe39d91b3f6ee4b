"""What all measurements share: programs that are started and ended, processor time, nginx, wrk."""
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOPAN = os.environ.get("SOPAN", str(ROOT / "target/release/sopan"))
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Program:
    """A program in the foreground, ended by its id together with its children."""

    def __init__(self, argv, port=None, log=None):
        self.log = open(log, "wb") if log else subprocess.DEVNULL
        self.process = subprocess.Popen(argv, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        self.port = port
        if port:
            self.wait_for_port()

    def wait_for_port(self):
        for _ in range(400):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.025)
        raise SystemExit(f"{self.process.args[0]} does not listen on {self.port}")

    def family(self):
        """Its process and those it started."""
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    parents.setdefault(int(fields[1]), []).append(int(entry.name))
                except OSError:
                    pass
        found, todo = [], [self.process.pid]
        while todo:
            found.append(todo.pop())
            todo += parents.get(found[-1], [])
        return found

    def cpu(self):
        """Seconds of processor time so far, user and system, with all children."""
        total = 0
        for pid in self.family():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
            except OSError:
                pass
        return total / TICKS

    def memory_kib(self):
        """Proportional set size, which does not count shared pages twice."""
        total = 0
        for pid in self.family():
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
            except (OSError, TypeError):
                pass
        return total

    def end(self):
        pids = self.family()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                pass
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Folder:
    """A folder that is gone afterwards; nginx's workers, which drop their rights, may write in it."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="sopan-bench-"))
        self.path.chmod(0o777)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def nginx(folder, http, workers=2):
    """nginx with this `http` block, in the foreground."""
    name = f"nginx-{len(list(folder.iterdir()))}"
    temp = "".join(f"{kind}_temp_path {folder}/{name}-{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    conf = folder / f"{name}.conf"
    conf.write_text(f"""daemon off; worker_processes {workers}; pid {folder}/{name}.pid; error_log {folder}/{name}.err crit;
worker_rlimit_nofile 20000; events {{ worker_connections 9000; }}
http {{ access_log off; {temp} keepalive_requests 1000000000; keepalive_timeout 600; {http} }}
""")
    return ["nginx", "-e", f"{folder}/{name}.err", "-c", str(conf)]


def certificate(folder):
    """A certificate for 127.0.0.1 and its key, signed by itself; made once."""
    crt, key = folder / "up.crt", folder / "up.key"
    if not crt.exists():
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE",
                        "-keyout", key, "-out", crt], check=True, capture_output=True)
    return crt, key


def nginx_upstream(folder, port, tls_port=None):
    """Answers /1k and /100k from memory, /stored with a lifetime, and counts at /count; also over TLS, if there is a port for it."""
    tls = ""
    if tls_port:
        crt, key = certificate(folder)
        tls = f"listen 127.0.0.1:{tls_port} ssl http2 backlog=4096; ssl_certificate {crt}; ssl_certificate_key {key};"
    body = '{"data":"' + "x" * 1013 + '"}'
    (folder / "www").mkdir(exist_ok=True)
    (folder / "www/100k").write_text('{"data":"' + "x" * (102400 - 11) + '"}')
    return nginx(folder, f"""default_type application/json; sendfile on; open_file_cache max=4;
server {{ listen 127.0.0.1:{port} backlog=4096; {tls} root {folder}/www;
  location = /1k {{ return 200 '{body}'; }}
  location = /stored {{ add_header Cache-Control "public, max-age=3600"; return 200 '{body}'; }} location = /count {{ stub_status; }} }}""", workers=1)


def nginx_proxy(folder, port, upstream, limit=None, scheme="http"):
    """nginx as the peer: keep-alive on both sides, no buffering to disk, perhaps with limit_req (rate, burst)."""
    check = f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {certificate(folder)[0]}; proxy_ssl_name 127.0.0.1;" if scheme == "https" else ""
    zone = f"limit_req_zone $server_name zone=z:1m rate={limit[0]}r/s;" if limit else ""
    use = f"limit_req zone=z burst={limit[1]};" if limit else ""
    return nginx(folder, f"""tcp_nodelay on; {zone} upstream u {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000000; }}
server {{ listen 127.0.0.1:{port} reuseport backlog=4096; server_name x;
  location = /refused {{ return 503; }}
  location / {{ {use} proxy_pass {scheme}://u; {check} proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_buffers 16 16k; proxy_max_temp_file_size 0; }} }}""")


def nginx_cache(folder, port, upstream):
    """nginx with a cache on file, which the kernel keeps in memory."""
    return nginx(folder, f"""tcp_nodelay on; proxy_cache_path {folder}/stored levels=1:2 keys_zone=z:10m max_size=100m inactive=1h;
upstream u {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000000; }}
server {{ listen 127.0.0.1:{port} reuseport backlog=4096; server_name x;
  location / {{ proxy_cache z; proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_buffers 16 16k; proxy_max_temp_file_size 0; }} }}""")


def haproxy_cache(folder, port, upstream):
    """HAProxy with its cache, in memory."""
    conf = folder / "haproxy.cfg"
    conf.write_text(f"""global
  nbthread 2
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 60s
  timeout http-keep-alive 600s
cache stored
  total-max-size 64
  max-object-size 200000
  max-age 3600
frontend in
  bind 127.0.0.1:{port} backlog 4096
  default_backend up
backend up
  http-reuse always
  http-request cache-use stored
  http-response cache-store stored
  server u 127.0.0.1:{upstream}
""")
    return ["haproxy", "-db", "-f", str(conf)]


def sopan(port, upstream, *flags, scheme="http", admin=None):
    return [SOPAN, "serve", "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}" if admin else "off", "--upstream", f"{scheme}://127.0.0.1:{upstream}", *flags]


def wrk(port, path, connections, seconds, script=None):
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "--latency"]
    argv += ["-s", str(script)] if script else []
    out = subprocess.run([*argv, f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True).stdout
    unit = {"us": 1, "ms": 1e3, "s": 1e6, "m": 6e7}
    at = lambda percent: (lambda m: float(m[1]) * unit[m[2]])(re.search(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s|m)", out, re.M))
    return {
        "requests": int(re.search(r"(\d+) requests in", out)[1]),
        "per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
        "p50_us": at(50),
        "p99_us": at(99),
        "bad": int((re.search(r"Non-2xx or 3xx responses: (\d+)", out) or [0, 0])[1]),
    }


def median(values):
    return statistics.median(values)


def spread(values):
    return f"{min(values):.3g}..{max(values):.3g}"


def machine():
    """How busy the machine is with other things, which tells how far figures can be trusted."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
