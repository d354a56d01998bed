"""Row 11: of the runs that want one folder, one gets it; the others refuse and name it; a kill frees the folder."""

import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.torture.row import Result, process

TITLE = "two runs in one folder"
TARGET = "one runs, every other refuses and names it; a killed one frees the folder"
COUNT = 50
RIVALS = 3

# A run without its work: it says that it holds the folder and stays until it is told to go.
HOLDER = """
import sys
from pathlib import Path
from qkv.errors import RunError
from qkv.lock import FolderLock
try:
    with FolderLock(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
except RunError as error:
    sys.exit(f"qkv: {error}")
"""


def run(count: int = COUNT, seed: int = 0) -> Result:
    result = Result()
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        for trial in range(count):
            result.trials += 1
            _race(result, Path(name, f"run-{trial % 5}"), f"race {trial}")
    return result


def _race(result: Result, folder: Path, where: str) -> None:
    """All start at once; the losers end by themselves, so the one still there is the winner."""
    with ExitStack() as stack:
        rivals = [stack.enter_context(process(["-c", HOLDER, str(folder)])) for _ in range(RIVALS)]
        first_words = [(rival.stdout.readline() if rival.stdout else "").strip() for rival in rivals]
        winners = [rival for rival, words in zip(rivals, first_words, strict=True) if words == "held"]
        result.expect(len(winners) == 1, f"{where}: {len(winners)} runs hold the folder")
        for rival in rivals:
            if rival in winners or not winners:
                continue
            said = (rival.stderr.read() if rival.stderr else "").strip()
            result.expect(rival.wait() != 0, f"{where}: a refused run ends with exit code 0")
            result.expect(
                (str(folder) in said and f"process {winners[0].pid} " in said) or "left no name" in said,
                f"{where}: the refusal does not name the holder: {said!r}",
            )
        for winner in winners:
            winner.send_signal(signal.SIGKILL)
            winner.wait()
        with process(["-c", HOLDER, str(folder)]) as after:
            freed = (after.stdout.readline() if after.stdout else "").strip() == "held"
            result.expect(freed, f"{where}: the folder is still taken after its holder was killed")
