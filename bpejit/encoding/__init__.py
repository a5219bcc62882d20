"""Encoding and decoding: text to token ids and back, in memory and from file to file."""
