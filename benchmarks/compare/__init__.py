"""Benchmarks of bpejit and other tokenizers on the same inputs, in fresh processes: `python -m benchmarks.compare`.

- `works` has one file for each thing that is measured, `tools` one file for each tokenizer;
- `corpora` and `vocabularies` create the inputs;
- `measure` compares results with bpejit's, then times the tools; each run is a process of `worker`, started by `processes`;
- `results` stores the figures as JSON lines, and `report` renders them as tables.
"""
