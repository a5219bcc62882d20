"""An S3 server in this process, for tests of remote inputs and outputs."""

from __future__ import annotations

import functools
import logging
import secrets
from pathlib import Path
from typing import Any

import pytest

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@functools.lru_cache(maxsize=1)
def _server() -> str:
    """Start the server of this process, which ends with it; return its address."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    return f"http://{host}:{port}"


def server_environment() -> dict[str, str]:
    """Start the server if it is not running yet; return the environment that programs need to use it."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": _server()}


class Bucket:
    """A new bucket, and the environment that commands need to use it."""

    def __init__(self, environment: dict[str, str]) -> None:
        import s3fs

        self.environment = environment
        s3fs.S3FileSystem.clear_instance_cache()
        self.file_system: Any = s3fs.S3FileSystem()
        self.name = f"bucket-{secrets.token_hex(6)}"
        self.file_system.mkdir(self.name)
        self.url = f"s3://{self.name}"

    def put(self, key: str, data: bytes) -> str:
        """Store an object, and return its URL."""
        self.file_system.pipe_file(f"{self.name}/{key}", data)
        return f"{self.url}/{key}"

    def get(self, key: str) -> bytes:
        """Return the content of an object."""
        data: bytes = self.file_system.cat_file(f"{self.name}/{key}")
        return data

    def list_keys(self) -> list[str]:
        """Return the keys of all objects."""
        self.file_system.invalidate_cache()
        return [name.partition("/")[2] for name in self.file_system.find(self.name)]

    def fetch(self, folder: Path) -> Path:
        """Copy all objects to a folder."""
        for key in self.list_keys():
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(self.get(key))
        return folder


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket of an S3 server."""
    environment = server_environment()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    return Bucket(environment)
