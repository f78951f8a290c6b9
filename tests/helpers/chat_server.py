"""A server with OpenAI's chat completions on the loopback, which can be told to fail."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with owner.lock:
            owner.seen.append({"path": self.path, "headers": dict(self.headers), "body": body})
            fault = owner.faults.popleft() if owner.faults else None
            if owner.dies_after is not None and len(owner.seen) > owner.dies_after:
                fault = reset
        if fault is not None:
            fault(self)
            return
        answer = owner.answer(body)
        self.reply(200, answer if isinstance(answer, dict) else completion(answer))

    def reply(self, status, value, headers=()):
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        with contextlib.suppress(OSError):  # a client that has given up
            self.send_response(status)
            for name, text in headers:
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)


class ChatServer:
    """Use it in a ``with`` statement.

    Args:
        answer: request body -> text of the answer, or the whole answer.

    Attributes:
        seen: path, headers and body of every request.
        faults: what happens to the next requests instead of an answer, in their order; None answers.
        dies_after: requests after which every connection is cut.
    """

    def __init__(self, answer=lambda body: "yes"):
        self.answer, self.seen, self.faults, self.dies_after = answer, [], deque(), None
        self.lock, self.closing = threading.Lock(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.owner, self._server.daemon_threads = self, True
        self._server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def completion(text, *, finish="stop", prompt_tokens=10, completion_tokens=3):
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens},
    }


def status(code, value=b"", **headers):
    """Answers with a status; underscores in names of headers become hyphens."""
    pairs = [(name.replace("_", "-"), text) for name, text in headers.items()]
    return lambda handler: handler.reply(code, value, pairs)


def malformed(handler):
    handler.reply(200, b'{"choices": [{"mess')


def reset(handler):
    """Cuts the connection with a TCP reset."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def stall(handler):
    """Says nothing until the server is closed."""
    handler.server.owner.closing.wait(30)
    handler.close_connection = True


def drip(handler):
    """Sends the head of an answer, then a byte now and then."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not handler.server.owner.closing.wait(0.02):
            handler.wfile.write(b" ")
            handler.wfile.flush()
    handler.close_connection = True


class FakeTime:
    """A clock that moves when somebody sleeps; keeps the lengths of the sleeps."""

    def __init__(self, now=1000.0):
        self.now, self.slept, self.lock = now, [], threading.Lock()

    def clock(self):
        return self.now

    def sleep(self, seconds):
        with self.lock:
            self.slept.append(seconds)
            self.now += seconds
