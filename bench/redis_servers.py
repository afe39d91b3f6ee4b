"""redis-servers that are killed, stopped and cut off: one alone, and one with a replica that three sentinels watch."""
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

LOCAL = "127.0.0.1"
SENTINEL_NAME = "main"
# So long may it take until something is there.
PATIENCE = 20


def fixed_port():
    """A port that the system gives to nobody by itself, so that a server that is started anew finds it free."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as s:
            try:
                s.bind((LOCAL, port))
                return port
            except OSError:
                pass


def ask(port, *words, timeout=2.0):
    """What a server answers; an error that it tells is raised."""
    with socket.create_connection((LOCAL, port), timeout) as s, s.makefile("rwb") as stream:
        stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words)))
        stream.flush()
        return reply(stream)


def reply(stream):
    line = stream.readline().rstrip()
    if not line:
        raise OSError("the connection ended")
    kind, rest = line[:1], line[1:].decode()
    if kind == b"-":
        raise RuntimeError(rest)
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return stream.read(int(rest) + 2)[:-2].decode(errors="replace") if int(rest) >= 0 else None
    if kind == b"*":
        return [reply(stream) for _ in range(int(rest))]
    return rest


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if holds():
                return
        except (OSError, RuntimeError):
            pass
        time.sleep(0.01)
    raise SystemExit(f"it does not come: {what}")


class Redis:
    """A server that keeps nothing on a disk."""

    def __init__(self, folder, settings="", sentinel=False):
        if not shutil.which("redis-server"):
            raise SystemExit("missing: redis-server; on Debian: apt-get install redis-server")
        self.port = fixed_port()
        self.folder = folder / f"redis-{self.port}"
        self.folder.mkdir()
        kept = "" if sentinel else 'save ""\nappendonly no\n'
        self.file = self.folder / "redis.conf"
        self.file.write_text(f"port {self.port}\nbind {LOCAL}\ndir {self.folder}\n{kept}{settings}")
        self.argv = ["redis-server", str(self.file)] + (["--sentinel"] if sentinel else [])
        self.start()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        own = f"process_id:{self.process.pid}\r\n"
        until(f"redis-server on {self.port}", lambda: own in ask(self.port, "INFO", "server"))

    def ask(self, *words):
        return ask(self.port, *words)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def cut(self):
        """Cuts all connections but that on which this is asked."""
        return self.ask("CLIENT", "KILL", "SKIPME", "yes")

    def calls(self):
        """How often it was asked for each command, scripts as a whole."""
        stats = [line[8:].split(":calls=") for line in self.ask("INFO", "commandstats").splitlines() if line.startswith("cmdstat_")]
        return {name: int(rest.split(",")[0]) for name, rest in stats}

    def scripts(self):
        """Every round trip is one script."""
        return sum(count for name, count in self.calls().items() if name in ("eval", "evalsha"))

    def end(self):
        self.kill()


class Guarded:
    """A master, a replica, and three sentinels that let the replica take over."""

    def __init__(self, folder):
        at_once = "repl-diskless-sync yes\nrepl-diskless-sync-delay 0\n"
        self.master = Redis(folder, at_once)
        self.replica = Redis(folder, f"{at_once}replicaof {LOCAL} {self.master.port}\n")
        watch = (f"sentinel monitor {SENTINEL_NAME} {LOCAL} {self.master.port} 2\nsentinel down-after-milliseconds {SENTINEL_NAME} 500\n"
                 f"sentinel failover-timeout {SENTINEL_NAME} 3000\n")
        self.sentinels = [Redis(folder, watch, sentinel=True) for _ in range(3)]
        until("the replica", lambda: "master_link_status:up" in self.replica.ask("INFO", "replication"))
        for sentinel in self.sentinels:
            until("the sentinels", lambda: self.knows_all(sentinel))

    @staticmethod
    def knows_all(sentinel):
        told = sentinel.ask("SENTINEL", "MASTER", SENTINEL_NAME)
        told = dict(zip(told[::2], told[1::2]))
        return told["num-other-sentinels"] == "2" and told["num-slaves"] == "1"

    def url(self):
        hosts = ",".join(f"{LOCAL}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis-sentinel://{hosts}/{SENTINEL_NAME}"

    def kill_master(self):
        """Kills it, and waits until the replica has taken over."""
        self.master.kill()
        until("the failover", lambda: "role:master" in self.replica.ask("INFO", "replication"))

    def end(self):
        for server in (*self.sentinels, self.replica, self.master):
            server.end()


class Way:
    """A way to a server on which what it says can be held up, lost or garbled; runs on threads of its own."""

    def __init__(self, port):
        self.to, self.delay, self.loses, self.garbles = port, 0.0, False, False
        self.listener = socket.create_server((LOCAL, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection((LOCAL, self.to))
            except OSError:
                return
            for socket_ in (near, far):
                socket_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, True), daemon=True).start()

    def pump(self, source, sink, is_answer):
        try:
            while data := source.recv(65536):
                if self.loses:
                    continue
                if is_answer and self.delay:
                    time.sleep(self.delay)
                if is_answer and self.garbles:
                    data = b"$3\r\nHTTP/1.1 418 I'm a teapot\r\n\r\n"
                sink.sendall(data)
        except OSError:
            pass
        for socket_ in (source, sink):
            try:
                socket_.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self.listener.close()
