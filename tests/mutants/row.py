"""One planted fault, as a row of a table."""


class Mutant:
    """A file's exact old text, which stands there once; what it becomes; and the tests of which one must fail."""

    def __init__(self, fault: str, file: str, old: str, new: str, /, *tests: str) -> None:
        self.fault, self.file, self.old, self.new, self.tests = fault, file, old, new, tests
