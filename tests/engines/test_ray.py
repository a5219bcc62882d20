"""Tests of jobs on a Ray cluster of three local nodes: bytes equal to one machine's, with workers and nodes that are killed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import data_text
from helpers.cli import snapshot
from helpers.cluster import LocalCluster, Midway
from helpers.counting import small_units
from helpers.datagen import write_problem

import bpejit
from bpejit.engines import ray_cluster
from bpejit.engines.ray_cluster import ClusterTask, installed_versions
from bpejit.errors import EngineError, OptionError, OutputError
from bpejit.jobs.job_plan import open_store

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.compiled, pytest.mark.filterwarnings("ignore::Warning:ray")]

END = "<|endoftext|>"
SLOW = r"(?<=\s)\w+|\w+|\W"
"""A pattern that runs through the `regex` package, so that there is time to kill something."""

UNIT = {"unit_bytes": 50_000, "chunk_bytes": 20_000}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shards": {"shard_tokens": 100_000, "append_token": END, "val_fraction": 0.2, "seed": 5, "document_index": True},
}


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return bpejit.train([data_text_path()], vocab_size=400, pattern=SLOW)


def data_text_path() -> Path:
    return Path(__file__).parent.parent / "data" / "code.txt"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    text = data_text("prose.txt")
    documents = [text[begin : begin + 3000] for begin in range(0, len(text), 3000)]
    (tmp_path / "in").mkdir()
    for name in ("one", "two"):
        (tmp_path / "in" / f"{name}.txt").write_bytes(END.encode().join(documents))
    return tmp_path


def results(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(folder).items() if not name.startswith("in/")}


def clear(folder: Path) -> None:
    for name in results(folder):
        (folder / name).unlink()


@pytest.mark.parametrize("kill", ["node", "worker"])
def test_counting_survives_a_kill(cluster: LocalCluster, work: Path, kill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "in" / "broken.jsonl").write_text('{"text": "from a record"}\n{"no": "text"}\n')
    options: dict[str, Any] = {"pattern": SLOW, "chunk_bytes": 20_000, "sources": {"in/two.txt": 3}}
    inputs = ["in/one.txt", "in/broken.jsonl"]
    expected = bpejit.count(inputs, out="one.counts", **options)
    small_units(monkeypatch)
    if kill == "node":
        cluster.fill(3)
    midway = Midway("count", cluster.kill_node if kill == "node" else lambda: cluster.kill_worker("ray::bpejit count part"))
    on_cluster: dict[str, Any] = {"engine": "ray", **options}
    found = bpejit.count(inputs, out="ray.counts", progress=midway, **on_cluster)
    assert midway.acted
    assert found == expected
    assert (work / "ray.counts").read_bytes() == (work / "one.counts").read_bytes()
    assert [entry.name for entry in work.iterdir() if entry.name.startswith(".")] == []
    if kill == "worker":
        sampled = {"vocab_size": 300, "max_bytes": 300_000, "seed": 3, "temporary_folder": work}
        trained = [bpejit.train(inputs, **options, **sampled), bpejit.train(inputs, **on_cluster, **sampled)]
        assert trained[0].sha256 == trained[1].sha256


@pytest.mark.parametrize(("name", "kill"), [("plain", "node"), ("shards", "worker")])
def test_encoding_survives_a_kill(cluster: LocalCluster, work: Path, tokenizer: bpejit.Tokenizer, name: str, kill: str) -> None:
    options = OPTIONS[name] | UNIT
    tokenizer.encode_files("in", "tokens.bin", **options)
    expected = results(work)
    clear(work)
    if kill == "node":
        cluster.fill(3)
    midway = Midway("encode", cluster.kill_node if kill == "node" else lambda: cluster.kill_worker("ray::bpejit encode part"))
    report = tokenizer.encode_files("in", "tokens.bin", engine="ray", progress=midway, **options)
    assert midway.acted
    assert results(work) == expected
    assert report.units > report.parts >= 8
    assert report.cluster.startswith(f"the Ray cluster at {cluster.address} (")


def test_data_sets_survive_a_kill(cluster: LocalCluster, work: Path) -> None:
    lines = data_text("prose.txt").replace(b"\t", b" ").splitlines()[:12_000]
    (work / "in" / "source.txt").write_bytes(b"\n".join(line + b"." for line in lines) + b"\n")
    inputs = {"inputs": "in/source.txt", "targets": "in/source.txt"}
    splits = [{"split": "train", "shards": 3, **inputs}, {"split": "dev", **inputs}]
    write_problem(work / "problem.toml", splits, name="pairs", approx_vocab_size=400)
    bpejit.generate_data("problem.toml", "data", unit_bytes=50_000)
    expected = snapshot(work / "data")
    for path in (work / "data").glob("pairs*"):
        path.unlink()
    cluster.fill(3)
    midway = Midway("encode", cluster.kill_node)
    bpejit.generate_data("problem.toml", "data", unit_bytes=50_000, engine="ray", progress=midway)
    assert midway.acted
    assert snapshot(work / "data") == expected


def test_one_warning_for_all_parts(cluster: LocalCluster, work: Path) -> None:
    texts = [work / "in" / f"{name}.txt" for name in ("one", "two")]
    for path in texts:
        path.write_bytes(b"a line\r\n" * 20_000)
    trained = bpejit.train(["in"], vocab_size=260, normalize_newlines=True)
    assert cluster.address
    with pytest.warns(bpejit.BpejitWarning, match="the text has carriage returns") as caught:
        report = trained.encode_files("in", "tokens.bin", engine="ray", **UNIT)
    assert report.parts > 1
    assert len([warning for warning in caught if issubclass(warning.category, bpejit.BpejitWarning)]) == 1


@pytest.mark.parametrize("stage", ["encode", "count", "datagen"])
def test_nodes_with_another_copy_of_an_input_are_refused(
    cluster: LocalCluster, work: Path, tokenizer: bpejit.Tokenizer, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The driver tells other modification times than the nodes find, as for an old copy."""
    monkeypatch.setattr("bpejit.jobs.cluster_jobs.modified_times", lambda paths: dict.fromkeys(paths, 10**18))
    assert cluster.address
    with pytest.raises(bpejit.CorpusError, match=r"is another file on the node .*of the driver at 1000000000\.0.* seconds"):
        if stage == "encode":
            tokenizer.encode_files("in", "tokens.bin", engine="ray", **UNIT)
        elif stage == "count":
            bpejit.count("in", out="ray.counts", engine="ray")
        else:
            (work / "in" / "source.txt").write_bytes(b"a line\n" * 100)
            split = {"split": "train", "inputs": "in/source.txt", "targets": "in/source.txt"}
            write_problem(work / "problem.toml", [split], name="pairs", approx_vocab_size=300)
            bpejit.generate_data("problem.toml", "data", engine="ray")


def command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bpejit", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
import bpejit
from bpejit.jobs.job_plan import open_store

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run in the background of a shell

def interrupt(stage, done, total, unit):
    if open_store("tokens.bin", per_input=False).kept():
        os.kill(os.getpid(), signal.SIGINT)

options = dict(eval(sys.argv[2]), engine="ray", ray_address=sys.argv[1], workers=1)
bpejit.load("tok").encode_files("in", "tokens.bin", progress=interrupt, **options)
"""
"""A driver that is interrupted as soon as a unit is complete; with one task at a time, others are not."""


def test_interrupted_and_resumed_without_a_cluster(cluster: LocalCluster, work: Path, tokenizer: bpejit.Tokenizer) -> None:
    tokenizer.save("tok")
    for name in ("three", "four"):
        shutil.copy(work / "in" / "one.txt", work / "in" / f"{name}.txt")
    tokenizer.encode_files("in", "tokens.bin", **UNIT)
    expected = results(work)
    clear_outputs(work)
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, cluster.address, repr(UNIT)], capture_output=True, text=True, timeout=120
    )
    errors = ran.stderr
    assert errors.strip().endswith("KeyboardInterrupt")
    store = open_store(str(work / "tokens.bin"), per_input=False)
    kept, begun = store.kept(), store.begun()
    assert kept is not None
    assert begun is not None
    assert 0 < kept.units < begun["units"]
    assert not (work / "tokens.bin").exists()
    with pytest.raises(OutputError, match="continue it with `resume=True`"):
        tokenizer.encode_files("in", "tokens.bin", engine="ray", **UNIT)
    report = tokenizer.encode_files("in", "tokens.bin", resume=True, **UNIT)
    assert report.kept_units >= kept.units
    assert results(work) == expected
    again = tokenizer.encode_files("in", "tokens.bin", engine="ray", resume=True, **UNIT)
    assert (again.units, again.kept_units) == (report.units, report.units)


def clear_outputs(folder: Path) -> None:
    for path in folder.glob("tokens*"):
        path.unlink()


@pytest.mark.services
def test_command_with_a_local_ray(work: Path) -> None:
    before = set(Path(tempfile.gettempdir()).glob("bpejit-ray-*"))
    train = command("train", "in", "--vocab-size", "300", "--engine", "ray", "--ray-address", "local", "--workers", "1")
    _, errors = train.communicate(timeout=120)
    assert train.returncode == 0, errors
    assert "running on a local Ray (1 node, 1 processor)" in errors
    assert bpejit.load("tokenizer").sha256 == bpejit.train("in", vocab_size=300).sha256
    assert set(Path(tempfile.gettempdir()).glob("bpejit-ray-*")) == before
    plan = command("encode", "in", "--out", "t.bin", "--engine", "ray", "--ray-address", "local", "--dry-run")
    _, errors = plan.communicate(timeout=120)
    assert "in 1 unit, 1 part, on a local Ray, not started yet to `t.bin`" in errors
    assert "memory of a task" in errors
    plan = command("count", "in", "--out", "c.counts", "--engine", "ray", "--ray-address", "local", "--dry-run")
    _, errors = plan.communicate(timeout=120)
    assert "on a local Ray, not started yet to `c.counts`; expected: " in errors
    assert not Path("c.counts").exists()


def test_tasks_that_fail(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with ray_cluster.connected(None) as connection:
        with pytest.raises(EngineError, match=r"the workers of the task `a name` died 4 times without progress"):
            list(connection.run([ClusterTask("a name", "helpers.cluster:die", ())]))
        reached = iter([1, 2, 3, 3, 3, 3])
        with pytest.raises(EngineError, match="died 4 times without progress"):
            list(connection.run([ClusterTask("c", "helpers.cluster:die", (), progress=lambda: next(reached))]))
        assert list(reached) == []
        with pytest.raises(OutputError, match=r"No space left on device.*\(in the task `b` on node .+\)"):
            list(connection.run([ClusterTask("b", "helpers.cluster:fill_disk", ())]))
        with pytest.raises(EngineError, match=r"cannot see `/no/such/folder`, which the driver sees; expected storage"):
            connection.prepare_nodes("test", ["encoding"], ["/no/such/folder"])
        versions = installed_versions() | {"bpejit": "0.0.0", "numba": "0.1"}
        monkeypatch.setattr(ray_cluster, "installed_versions", lambda: versions)
        with pytest.raises(EngineError, match=r"different versions: bpejit 0\.0\.0 here, and .+ there, numba 0\.1 here, and"):
            connection.prepare_nodes("test", ["encoding"], [])


def test_requests_that_are_refused(work: Path, tokenizer: bpejit.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="which divides the job itself"):
        tokenizer.encode_files("in", "t.bin", engine="ray", shard="0/2")
    with pytest.raises(OptionError, match="can be read only once"):
        tokenizer.encode_files(iter(["text"]), "t.bin", engine="ray")
    with pytest.raises(OptionError, match="`-` is a stream"):
        tokenizer.encode_files("in", "-", engine="ray")
    with pytest.raises(EngineError, match="ray_address is given, and engine is 'threads'"):
        tokenizer.encode_files("in", "t.bin", engine="threads", ray_address="local")
    with pytest.raises(EngineError, match="engine is 'ray'"):
        bpejit.extend(tokenizer, "in", vocab_size=500, engine="ray")
    assert results(work) == {}


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nowhere", "auto"])
def test_address_without_a_cluster(address: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(work))
    with pytest.raises(EngineError, match=f"no Ray cluster answers at {address}: .+; expected the address of a head node"):
        ray_cluster.find_address(address)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_address_of_another_server(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reply() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        replying = threading.Thread(target=reply)
        replying.start()
        with pytest.raises(EngineError, match=r"no Ray cluster answers at 127.+: the server at this port is not Ray's"):
            ray_cluster.find_address(f"127.0.0.1:{server.getsockname()[1]}")
        replying.join()


def test_without_ray(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"needs the package `ray`.*pip install 'bpejit\[ray\]'"):
        bpejit.count("in", engine="ray")
