"""See docs/house.md for what lives in this room."""
