"""Kernels that divide text into pre-tokens.

`spans` finds the ends of pre-tokens: `special_token_scan` finds the next special token, and `automaton_runner` splits the text
before it, by `cursors`. `automaton_arrays` describes the tables; `document_splitting` splits several texts at once.
"""
