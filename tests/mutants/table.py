"""All faults: adding one is adding a row to a table here, or a table for another room.

`python -m tests.mutants WORD` runs the rows whose fault or file contains the word.
"""

from tests.mutants.call_and_state import CALLS
from tests.mutants.foundations import FOUNDATIONS
from tests.mutants.layers import LAYERS
from tests.mutants.training import TRAINING

MUTANTS = [*CALLS, *LAYERS, *FOUNDATIONS, *TRAINING]
