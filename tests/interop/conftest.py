"""The command `hivecore`, as its users call it."""

import pytest

from hivecore import cli


@pytest.fixture
def output(capsys):
    """Calls the command, which works; returns what it prints."""

    def call(*arguments):
        assert cli.main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def refused(capsys):
    """Calls the command, which ends with status 2; returns what it says of its mistake."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main([*map(str, arguments)])
        assert ended.value.code == 2
        return capsys.readouterr().err

    return call
