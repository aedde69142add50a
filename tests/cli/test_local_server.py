"""Starting, finding and stopping the local server, by real processes."""

import json
import os
import signal
import socket

from burnish.cli.server import StatusView
from burnish.wire import VolumeList


def test_two_commands_at_once_start_one_server(terminal):
    first, second = terminal.start("volumes", "list", "--json"), terminal.start("volumes", "list", "--json")
    for process in (first, second):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert VolumeList.model_validate_json(out).volumes == []
    assert terminal.home.server_log.read_text().count(" Serving ") == 1
    assert StatusView(**terminal.json("status")).pid == terminal.server_pid()


def test_up_down_and_status_tell_the_truth(terminal):
    assert "No server runs" in terminal.run("status").stdout
    assert not terminal.home.root.exists()
    assert "is up at http://127.0.0.1:" in terminal.run("up").stdout
    assert terminal.home.root.stat().st_mode & 0o777 == 0o700  # data, logs and keys are their user's alone
    pid = terminal.server_pid()
    assert f"(process {pid})" in terminal.run("up").stdout
    assert "A server runs already" in terminal.run("serve", code=1).stderr
    assert "one CPU slot" in terminal.run("status").stdout or "GPU slot" in terminal.run("status").stdout
    assert f"(process {pid}) has stopped" in terminal.run("down").stdout
    assert "No server runs." in terminal.run("down").stdout
    assert not terminal.home.server.exists()


def test_a_killed_server_is_replaced_by_the_next_command(terminal):
    terminal.run("up")
    killed = terminal.server_pid()
    os.kill(killed, signal.SIGKILL)
    assert terminal.json("volumes", "list") == {"volumes": []}
    assert terminal.server_pid() != killed


def test_a_server_file_that_names_a_silent_stranger_or_nothing_is_written_anew(terminal):
    terminal.home.root.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        url = f"http://127.0.0.1:{stranger.getsockname()[1]}"
        terminal.home.server.write_text(json.dumps({"url": url, "pid": os.getpid(), "version": "0"}))
        assert "No server runs" in terminal.run("status").stdout
    terminal.home.server.write_bytes(b"\xff\xfe\0")
    assert terminal.json("volumes", "list") == {"volumes": []}
    assert terminal.server_pid() != os.getpid()


def test_a_server_whose_key_was_lost_can_be_stopped_and_makes_a_new_one(terminal):
    terminal.run("up")
    lost = terminal.home.token.read_text()
    terminal.home.token.unlink()
    assert "`burnish down` and `burnish up` write it anew" in terminal.run("volumes", "list", code=1).stderr
    assert "has stopped" in terminal.run("down").stdout
    assert terminal.json("volumes", "list") == {"volumes": []}
    assert terminal.home.token.read_text() != lost


def test_up_restarts_a_server_of_another_version(terminal):
    terminal.run("up")
    old = json.loads(terminal.home.server.read_text())
    terminal.home.server.write_text(json.dumps(old | {"version": "0.0.1"}))
    assert "0.0.1" in terminal.run("volumes", "list").stderr
    done = terminal.run("up")
    assert "Restarting the server: it is burnish 0.0.1" in done.stderr
    assert terminal.server_pid() != old["pid"]


def test_a_server_that_cannot_start_is_told_with_the_end_of_its_log(terminal):
    terminal.home.root.mkdir()
    terminal.home.token.write_text("short\n")
    done = terminal.run("volumes", "list", code=1)
    assert "Error: The local server ended at once, with exit code 1. Its log ends:" in done.stderr
    assert "does not hold a key" in done.stderr
    assert f"Hint: The whole log is {terminal.home.server_log}." in done.stderr
    terminal.home.token.write_bytes(bytes(range(128, 160)))
    assert "does not hold a key" in terminal.run("volumes", "list", code=1).stderr


def test_serve_runs_in_the_foreground_until_told_to_stop(terminal):
    process = terminal.start("serve", "--port", "0")
    try:
        terminal.wait_for(terminal.home.server.exists)
        assert terminal.server_pid() == process.pid
        assert terminal.json("volumes", "list") == {"volumes": []}
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert not terminal.home.server.exists()


def test_a_remote_server_needs_a_key_and_an_answer(terminal):
    terminal.environment = {"BURNISH_URL": "http://127.0.0.1:9"}
    assert "BURNISH_API_KEY is not." in terminal.run("train", "list", code=1).stderr
    terminal.environment["BURNISH_API_KEY"] = "key"
    done = terminal.run("train", "list", code=1)
    assert done.stderr.startswith("Error: The server at http://127.0.0.1:9 cannot be reached.\nHint: ")
    assert "does not manage" in terminal.run("up", code=1).stderr
    terminal.environment["BURNISH_URL"] = "127.0.0.1:9"
    assert "is not the address of a server" in terminal.run("train", "list", code=1).stderr


def test_a_command_by_address_and_key_reaches_the_same_server(terminal):
    terminal.run("volumes", "create", "research", "--size", "1Mi")
    about = json.loads(terminal.home.server.read_text())
    terminal.environment = {"BURNISH_URL": about["url"], "BURNISH_API_KEY": terminal.home.token.read_text()}
    assert [each["name"] for each in terminal.json("volumes", "list")["volumes"]] == ["research"]
    terminal.environment["BURNISH_API_KEY"] = "wrong"
    assert terminal.run("volumes", "list", code=1).stderr.startswith("Error: The key is missing or wrong.")
    terminal.environment = {}
