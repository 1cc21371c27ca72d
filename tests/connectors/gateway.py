"""A gateway to fake-gcs-server that translates the one request it does not know.

Google's XML interface takes an object by a PUT of its URL, with a condition as a header;
this emulator takes the condition only in the JSON interface.
"""

from __future__ import annotations

import http.client
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH")


class Gateway(BaseHTTPRequestHandler):
    """Passes requests on."""

    protocol_version = "HTTP/1.1"
    emulator: str  # of the emulator

    def pass_on(self) -> None:
        method, path = self.command, self.path
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        left_out = ("host", "content-length", "x-goog-if-generation-match")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in left_out}
        expected = self.headers.get("x-goog-if-generation-match")
        if method == "PUT" and expected is not None:
            bucket, _, key = path.strip("/").partition("?")[0].partition("/")
            condition = f"uploadType=media&name={key}&ifGenerationMatch={expected}"
            method, path = "POST", f"/upload/storage/v1/b/{bucket}/o?{condition}"
        there = http.client.HTTPConnection(self.emulator)
        there.request(method, path, body, {**headers, "Host": self.headers["Host"]})
        answer = there.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "date"):
                self.send_header(name, value)
        if expected is not None and answer.getheader("ETag") is None:
            self.send_header("ETag", '"of the object"')
        length = answer.getheader("Content-Length") if method == "HEAD" else None
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        there.close()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main(port: int, emulator: str) -> None:
    """Serve until the process ends."""
    Gateway.emulator = emulator
    for method in METHODS:
        setattr(Gateway, f"do_{method}", Gateway.pass_on)
    ThreadingHTTPServer(("127.0.0.1", port), Gateway).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
