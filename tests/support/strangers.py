"""Endpoints that are not DynamoDB: silent, refusing, hanging up, or with a fixed answer."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

REFUSED_CREDENTIALS = (
    400,
    "application/x-amz-json-1.0",
    (
        b'{"__type": "com.amazon.coral.service#UnrecognizedClientException",'
        b' "message": "The security token included in the request is invalid."}'
    ),
)
LOGIN_PAGE = (200, "text/html", b"<html>please log in</html>")
BROKEN_GATEWAY = (502, "text/html", b"<html>bad gateway</html>")


@contextmanager
def answering(answer: tuple[int, str, bytes], *, is_aws: bool = False) -> Iterator[str]:
    """Serve the same answer to every request, under a request id as AWS does; gives the URL."""
    status, kind, body = answer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-type", kind)
            if is_aws:
                self.send_header("x-amzn-RequestId", "4KBNVRGD25RG1KEO9UT4V3FQDJ")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with _serving(Handler) as url:
        yield url


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def silent() -> Iterator[str]:
    """Take connections and never answer; gives the URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as taken:
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def hanging_up() -> Iterator[str]:
    """Read every request and close its connection without an answer; gives the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with _serving(Handler) as url:
        yield url


@contextmanager
def refused() -> Iterator[str]:
    """Hold a port on which no one listens; gives the URL."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
