"""What names ZooKeeper's servers: refused at once where a name cannot be one, not on a thread of the library's."""

import pytest

from pkafka.coordination.connect_string import split_connect


@pytest.mark.parametrize("connect", ["a..b:1", f"{'x' * 64}:1", "\udcff:1", "good:1,..:2/chroot"])
def test_what_cannot_be_the_name_of_a_host_is_refused(connect: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a host"):
        split_connect(connect)


@pytest.mark.parametrize("connect", ["a:1,b:2", "[::1]:2181", "é.example:1", " a:1 , b", "127.0.0.1", "a.:1"])
def test_other_names_are_looked_up(connect: str) -> None:
    assert split_connect(f"{connect}/chroot") == (connect, "/chroot")
