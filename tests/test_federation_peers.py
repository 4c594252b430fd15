"""The file of peers: what it may say, and what is said when it is wrong."""

from pathlib import Path

import pytest

from opilio.cli.federate import entries_at
from opilio.crawl.peer import LocalPeer, SharedCollection, open_peer
from opilio.errors import InputError
from opilio.federation.peers import PeerEntry, PeerError, read_peers
from opilio.federation.remote_peer import RemotePeer
from search_pages import Page, make_collection

GOOD = """
[[peer]]
name = "birds"
at = "../birds"

[[peer]]
name = "ships"
at = "https://ships.example:8765/c/ships/"
token_env = "SHIPS_TOKEN"

[[peer]]
name = "plants"
at = "http://127.0.0.1:9/portal/c/plants"
token_file = "plants.token"
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "peers.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_a_good_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are meant from where the file lies; tokens come from the environment or a file; no warnings."""
    monkeypatch.setenv("SHIPS_TOKEN", "s3cret")
    (tmp_path / "plants.token").write_text("t0ken\n")
    (tmp_path / "plants.token").chmod(0o600)
    warned: list[str] = []
    birds, ships, plants = read_peers(write(tmp_path, GOOD), warned.append)
    assert Path(birds.at).resolve() == (tmp_path.parent / "birds").resolve()
    assert ships == PeerEntry("ships", "https://ships.example:8765/c/ships", "s3cret")
    assert plants.token == "t0ken"
    assert "s3cret" not in repr(ships)
    assert warned == []
    assert isinstance(open_peer(birds), LocalPeer)
    peer = open_peer(plants)
    assert isinstance(peer, RemotePeer)
    assert peer.place == "http://127.0.0.1:9/portal/c/plants"


def test_tokens_that_others_may_read_are_warned_of(tmp_path: Path) -> None:
    """A file with a token in it that others may read is named, with what to do."""
    file = write(tmp_path, '[[peer]]\nname = "a"\nat = "http://h/c/a"\ntoken = "x"\n')
    file.chmod(0o644)
    warned: list[str] = []
    read_peers(file, warned.append)
    assert len(warned) == 1
    assert f"chmod 600 {file}" in warned[0]
    other = tmp_path / "token"
    other.write_text("x")
    other.chmod(0o640)
    read_peers(write(tmp_path, '[[peer]]\nname = "a"\nat = "http://h/c/a"\ntoken_file = "token"\n'), warned.append)
    assert str(other) in warned[1]


def entry(**fields: str) -> str:
    return "[[peer]]\n" + "".join(f"{key} = {value}\n" for key, value in fields.items())


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("", "at least one", ""),
        ("peer = 3", "at least one", ""),
        ("x = 1\n" + entry(name='"a"', at='"b"'), "at least one", ""),
        ("[[peer]]\nname = x", "line 2", ""),
        (entry(name='"a"'), "[[peer]] 1: at is missing", ""),
        (entry(name='"a"', at='"b"', tokn='"c"'), "unknown key 'tokn'", "Did you mean 'token'?"),
        (entry(name="3", at='"b"'), "name has to be a text", ""),
        (entry(name='""', at='"b"'), "name has to be a text", ""),
        (entry(name='"a\\u001b"', at='"b"'), "the name is too long, or has characters", ""),
        (entry(name='"a"', at='"b"') * 2, "two peers are called 'a'", ""),
        (entry(name='"a"', at='"b"', token='"t"'), "a folder needs no token", ""),
        (entry(name='"a"', at='"http://h/c/a"'), "peer 'a': give one of token, token_env, token_file", "opilio serve"),
        (entry(name='"a"', at='"http://h/c/a"', token='"t"', token_env='"T"'), "give one of", ""),
        (entry(name='"a"', at='"http://h/c/a"', token_env='"NO_SUCH_TOKEN"'), "no NO_SUCH_TOKEN", ""),
        (entry(name='"a"', at='"http://h/c/a"', token_file='"gone"'), "gone cannot be read", ""),
        (entry(name='"a"', at='"http://h/c/a"', token='"x\\ny"'), "cannot be a token", ""),
        (entry(name='"a"', at='"ftp://h/c/a"', token='"t"'), "not the address", "/c/birds"),
        (entry(name='"a"', at='"http://u:p@h/c/a"', token='"t"'), "not the address", ""),
        (entry(name='"a"', at='"http://h:99999/c/a"', token='"t"'), "not the address", ""),
        (entry(name='"a"', at='"http://h/c/a?x=1"', token='"t"'), "not the address", ""),
        (entry(name='"a"', at='"http://h/a"', token='"t"'), "does not end in /c/", ""),
        (entry(name='"a"', at='"http://h/c/"', token='"t"'), "does not end in /c/", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str, hint: str) -> None:
    """An error names the file, the entry and the next step."""
    file = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_peers(file)
    assert str(file) in caught.value.message
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there is said so."""
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_peers(tmp_path / "none.toml")


def test_an_index_that_goes_away_meanwhile_is_an_error_of_the_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk says of a folder is a PeerError: one folder in trouble must not end the deliveries to others."""
    make_collection(tmp_path / "birds", [Page("an owl")])

    def gone(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(SharedCollection, "_summary", gone)
    with pytest.raises(PeerError, match=r"birds.*No such file"):
        LocalPeer("birds", tmp_path / "birds").summary()


@pytest.mark.parametrize(
    "address",
    ["http://[/c/birds", "http://h:99999/c/birds", "http:///c/birds", "http://h/c/bi rds", "http://h/c/bi%0Ards"],
)
def test_addresses_that_are_none_are_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the command line as in the file: an error with a hint, before anything is asked."""
    for name in ("BIRDS", "BI_RDS"):
        monkeypatch.setenv(f"OPILIO_TOKEN_{name}", "secret")
    with pytest.raises(InputError, match="not the address of a collection") as caught:
        entries_at(address)
    assert caught.value.hint


def test_a_token_that_cannot_be_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable with something else in it is an error at once, not a peer that does not speak HTTP."""
    monkeypatch.setenv("OPILIO_TOKEN_BIRDS", "töken")
    with pytest.raises(InputError, match="cannot be a token") as caught:
        entries_at("http://ships.example/c/birds")
    assert caught.value.hint
    assert "töken" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://me:s3cret@h.example/c/birds", "http://h.example:8765/login#s3cret"])
def test_secrets_in_addresses_are_not_repeated(address: str, tmp_path: Path) -> None:
    """What may hold a password or a token is not shown again: errors go into notices, and to others."""
    file = tmp_path / "peers.toml"
    file.write_text(f'[[peer]]\nname = "birds"\nat = "{address}"\ntoken_env = "X"\n')
    with pytest.raises(InputError) as on_line:
        entries_at(address)
    with pytest.raises(InputError) as in_file:
        read_peers(file)
    for error in (on_line.value, in_file.value):
        assert "s3cret" not in f"{error.message} {error.hint}"
        assert "h.example" in error.message


@pytest.mark.parametrize(
    "line", ['at = "~nobody-of-this-name/birds"', 'at = "a\\u0000b"', 'at = "http://h/c/b"\ntoken_file = "~nobody/x"',
             'at = "http://h/c/b"\ntoken_file = "a\\u0000b"'],
)  # fmt: skip
def test_paths_that_are_none_are_told(line: str, tmp_path: Path) -> None:
    """A home that nobody has, a sign that no name can have: errors with a hint, no traceback."""
    file = tmp_path / "peers.toml"
    file.write_text(f'[[peer]]\nname = "birds"\n{line}\n')
    with pytest.raises(InputError) as caught:
        read_peers(file)
    assert caught.value.hint
