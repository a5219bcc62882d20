"""Kernels that divide text into pre-tokens.

`spans` finds the ends of the pre-tokens of one or several texts: `special_token_scan` finds the next special token, and
`cursors` run over the text before it. `automaton_arrays` describes the tables.
"""
