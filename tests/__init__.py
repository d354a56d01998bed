"""The tests mirror qkv/, file for file; what belongs to no file of it stands here at the top."""
