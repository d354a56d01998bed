"""The promises about training and loading, put to the test at full count: `python -m tests.torture --rows 1,2`."""
