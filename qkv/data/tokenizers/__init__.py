"""Text to ids and back: one file a tokenizer; each is saved as a `tokenizer.json` that others can load."""
