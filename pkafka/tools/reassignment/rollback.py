"""The way back from a reassignment, as a file: where partitions were before it."""

from pathlib import Path


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet.

    Raises:
        FileExistsError: it is.
        OSError: it cannot be written.
    """
    with path.open("x", encoding="utf-8") as file:
        file.write(text + "\n")


def write_beside(plan: Path, text: str) -> Path | None:
    """Write ``NAME.rollback.json`` into the folder of ``NAME.json``, or with a number where that is there already.

    What is there is never written over: it may be the only way back from the first of several moves.

    Returns:
        The file that says ``text``; None where the plan is no file with a place of its own, but a pipe.

    Raises:
        OSError: it cannot be written.
    """
    if not plan.is_file():
        return None
    number = 1
    while True:
        path = plan.with_name(f"{plan.stem}.rollback{'' if number == 1 else f'-{number}'}.json")
        try:
            write_new(path, text)
        except FileExistsError:
            if path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text + "\n":
                return path
            number += 1
        else:
            return path
